"""URLs: where they are found in what servers sent, and what they say by themselves.

`fingerprint` is the identity of a request, `seen_hash` its hash in the seen set, and
`partition` says where it is queued. `links` finds URLs in pages, `scope` and `traps`
say which are left out, and `canon` when two of them are one. `markup` reads the XML of
feeds and sitemaps, and `sitemaps` the URLs that these name.

No I/O and no clock. What a server sent is read in linear time. Called on the event
loop once per link, so it is counted in microseconds; `links` runs in worker processes,
too.
"""
