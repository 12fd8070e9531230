"""Response or revisit: which payloads the collection has already.

`digest` says when two payloads are the same, `revisit_policy` which payloads are looked
up and by which keys, and `digest_index` finds the original. `cdx_lookup` asks other
archives' CDX servers for what the index does not have; `url_history` knows the last
response of a URL, for conditional requests.

An original is used only if its record has been written, so every revisit has one. All
of this runs in the thread that writes WARC files (`warc.writer_thread`), never on the
event loop. A slow server costs that thread a bounded time.
"""
