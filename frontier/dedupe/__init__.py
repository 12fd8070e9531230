"""Response or revisit: which payloads the collection has already.

`digest` says when two payloads are the same, `digest_index` finds the original, and
`revisit_policy` decides whether a revisit record may point to it. `cdx_lookup` asks
other archives' CDX servers for what the index does not have; `url_history` knows what a
URL answered last, for conditional requests.

An original is used only if its record has been written: a revisit never points to
nothing. All of this runs in the thread that writes WARC files (`warc.writer_thread`),
never on the event loop; a server that is slow costs that thread a bounded time.
"""
