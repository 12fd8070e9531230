"""Seeds: where a crawl starts.

`read` reads them from text, `push` turns them into pushes, `seeder` stores these and
tells the nodes, `load_list` loads a list, `requeue` queues dead letters again,
`redis_feed` takes seeds from a key that others fill while the crawl runs.

The crawl does not end while seeds are being loaded. `cli` calls all but the feed, and
blocks; the feed runs on the event loop.
"""
