"""Builders of training data from the user's own files."""
