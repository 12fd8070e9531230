"""A node: one Scrapy process at work for a crawl, from joining to leaving.

`node` starts and stops everything else; `composition` puts it together. The inbox
takes requests from partitions that the node holds, the outbox pushes links to the
partitions of others, acks take from the queue what has been done. Every coroutine
here runs on Scrapy's event loop, and none of them waits for disk or gzip.
"""
