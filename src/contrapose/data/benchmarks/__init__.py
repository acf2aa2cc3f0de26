"""One short module a benchmark: its card and its reader."""
