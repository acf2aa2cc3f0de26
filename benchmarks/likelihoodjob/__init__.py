"""What `benchmarks/likelihood.py` compares: two architectures, and the ways to ask them."""
