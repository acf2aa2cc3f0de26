"""Training of the built-in models: `python -m tools.train_tiny`."""
