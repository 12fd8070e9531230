"""URLs: where they are found in what servers sent, and what they say by themselves.

`fingerprint` is the identity of a request, `seen_hash` its hash in the seen set, and
`partition` says where it is queued. `links` finds URLs in pages, `scope` and `traps`
say which are left out, and `canon` when two of them are one. `sitemaps` reads what
sites name themselves.

No I/O and no clock. Called on the event loop once per link, so it is counted in
microseconds. What a server sent is read by libraries: on the event loop what is small,
the rest in worker processes.
"""
