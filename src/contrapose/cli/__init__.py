"""The command line: one module a verb."""

from contrapose.cli.app import main

__all__ = ["main"]
