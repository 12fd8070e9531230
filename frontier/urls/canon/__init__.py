"""Canonicalization: what a URL is to a crawl, an index or an archive."""
