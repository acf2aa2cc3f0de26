"""Explorer: every example of some runs, to filter and sort, on a page or through a local server."""
