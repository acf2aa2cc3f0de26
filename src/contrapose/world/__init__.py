"""The built-in world: scenes, how they look, what can be said of them."""
