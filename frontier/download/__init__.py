"""What is between a request and its answer: what may be sent, to whom, and how."""
