"""Seen sets as files: what one crawl has seen, for the next."""
