"""The command line: one module per verb."""

from contrapose.cli.app import main

__all__ = [
    "main",
]
