"""A node: one Scrapy process at work for a crawl, from joining to leaving.

`node` makes, starts and stops all of it; `ends` says how it may end, and `departure`
leaves. A URL passes through these: `outbox` pushes links to their partitions;
`ready_queues` knows which queues have something, also from hints of other nodes;
`inbox` reserves from them, and `acks` removes from the store what is done. Requests
that cannot be stored are adopted: they belong to a tree of `deliveries`. `heartbeat`
keeps the node's place and its partitions, `borrow` gets partitions of other nodes, and
`reclaim` puts back reservations that no node has any more. `hosts` knows when each host
may be asked, and how many requests it may have at once. `end_of_crawl` finds the end.
`parts` makes the features, which hang on the hooks of `context.Part`.

A request is acked only after its links are pushed and its record is on disk. A node
that stops or crashes never deletes shared state. `session` and `scheduler` call it.
Every coroutine here runs on Scrapy's event loop, and none of them waits for disk or
gzip.
"""
