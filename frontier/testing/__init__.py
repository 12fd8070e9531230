"""A web site to crawl in tests, and what a crawl of it must fetch."""
