"""URLs: where they are found in what servers sent, and what they say by themselves."""
