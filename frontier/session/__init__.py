"""What the components of one Scrapy process share: one session, one node.

Scrapy makes the scheduler, the middlewares and the pipeline by themselves; each asks
`session_of(crawler)` for the same session, which also keeps what is known of each
request, in one weak map. `launch` is what the process was started with, `limits` are
Scrapy's limits as those of the whole crawl, `other_schedulers` what the project had
before.

The session makes the node when the spider opens, and closes it when the spider closes.
All of it runs on Scrapy's event loop, in the process of one spider; but `projects`,
`node_processes` and `process` are for who starts such processes.
"""
