"""The queue of a crawl: items in partitions, each URL at most once.

The seen test and the push are one script; an item leaves its queue only by an ack.
`item` encodes requests, `push` puts items in, `reserve` takes them out for as long as a
lease lasts, `dead_letters` reads those that were given up, `purge` takes out what an
operator has excluded.

The keys of a partition share a hash tag, so each script works on a Redis Cluster. What
is read from the store is checked before it is used. Most functions make calls and read
replies, without I/O: `node` and `seeds` send them, on the event loop or from a command.
"""
