"""A node: one Scrapy process at work for a crawl, from joining to leaving.

`kernel` is what a node is made of, `parts` makes the features that hang on it, and
`node` starts and stops all of it; `ends` says how it may end. The inbox takes requests
from partitions that the node holds, the outbox pushes links to their partitions, acks
take from the queue what has been done. `heartbeat` keeps the node's place and its
partitions, `failover` compares what the node knows with a store that has gone back in
time, `host_politeness` says what this node may have of a host, `end_of_crawl` finds the
end.

A request is acked only after its links are pushed and its record is on disk. A node
that stops or crashes never deletes shared state. `session` and `scheduler` call it.
Every coroutine here runs on Scrapy's event loop, and none of them waits for disk or
gzip.
"""
