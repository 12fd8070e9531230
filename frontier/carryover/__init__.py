"""What one crawl has seen, carried over to the next."""
