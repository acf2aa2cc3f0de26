"""Fine-tuning that improves compositional understanding, with a report of gains and losses."""
