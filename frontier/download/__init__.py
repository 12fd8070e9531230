"""What is between a request and its answer."""
