"""A shop that scrapy-redis crawls."""
