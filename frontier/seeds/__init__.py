"""Seeds: where a crawl starts.

`line` reads them from text, `push` makes them pushes, `load_once` sees that only one
node of a crawl loads them, `redis_feed` takes them from a key that others fill.
"""
