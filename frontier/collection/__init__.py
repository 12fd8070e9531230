"""What is done to a collection's digest index between crawls."""
