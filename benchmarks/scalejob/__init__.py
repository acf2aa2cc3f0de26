"""What a job of very many pairs costs, and a simulated run of plan and store, in steps."""
