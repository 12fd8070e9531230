"""URLs: where they are found in what servers sent."""
