"""The journal: what of the frontier a node has put on its own disk."""
