"""What the components of one Scrapy process share: one session, one node.

Scrapy makes the scheduler, the middlewares and the pipeline by themselves; each asks
`session_of(crawler)` for the same session. `launch` is what the process was started
with, `other_schedulers` what the project had before.
"""
