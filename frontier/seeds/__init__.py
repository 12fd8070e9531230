"""Seeds: where a crawl starts.

`read` reads them from text, `push` makes them pushes, `load_once` sees that each line
of a list counts once, whoever loads it and however often, `load_list` loads one,
`requeue` queues dead letters again, `redis_feed` takes seeds from a key that others
fill while the crawl runs.

The crawl does not end while seeds are loaded. `cli` calls it, which blocks, and the
feed runs on the event loop.
"""
