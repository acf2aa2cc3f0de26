"""Review of minimal pairs by a person: the page, the decisions, and the set that is left."""
