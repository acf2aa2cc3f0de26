"""Built-in models: small, trained on the built-in world, shipped with their weights."""

from contrapose.models.tiny.weights import NAMES, load, read_weights, write_weights

__all__ = [
    "NAMES",
    "load",
    "read_weights",
    "write_weights",
]
