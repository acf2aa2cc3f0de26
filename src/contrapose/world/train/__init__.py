"""Training the built-in models: `python -m contrapose.world.train`."""
