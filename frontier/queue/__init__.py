"""The queue of a crawl: items in partitions, each URL at most once.

The seen test and the push are one script; an item leaves its queue only by an ack.
`item` is how a request travels, `push` puts items in, `reserve` takes them out for as
long as a lease lasts, `dead_letters` keeps those that were given up. The keys of a
partition share a hash tag, so each script works on a Redis Cluster.
"""
