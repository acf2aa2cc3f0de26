"""What `benchmarks/score.py` compares: the job, the weights, and who does it."""
