"""Its spider."""
