"""Make your own: pairs to learn from, out of captions that one has."""
