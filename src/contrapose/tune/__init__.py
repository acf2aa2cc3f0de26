"""Fine-tuning for compositional understanding, with a report of what rose and what fell."""
