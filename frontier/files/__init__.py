"""Files: reading those that somebody else made, and the mode of those we make."""
