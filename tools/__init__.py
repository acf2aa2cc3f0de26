"""Developer commands, outside the wheel."""
