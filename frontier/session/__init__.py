"""What the components of one Scrapy process share: one session, one node.

Scrapy makes the scheduler, the middlewares and the pipelines separately; each asks
`session_of(crawler)` for the same session, which also keeps what is known of each
request, in one weak map. `launch` is about what the process was started with,
`request_stats` counts for Scrapy's limits as those of the whole crawl, and
`other_schedulers` is about what the project had before.

The session makes the node when the spider opens, and closes it when the spider closes.
All of it runs on Scrapy's event loop, in the process of one spider, except `process`,
which is what a command starts as such a process.
"""
