"""URLs: finding them in what servers send, and what can be told from a URL alone.

`fingerprint` is the identity of a request, `seen_hash` its hash in the seen set, and
`partition` says where it is queued. `links` finds URLs in pages, `scope` and `traps`
say which are left out, and `canon` when two of them are the same. `sitemaps` reads the
URLs that sites list themselves.

No I/O and no clock. Called on the event loop once per link, so microseconds count.
Libraries parse what a server sent: small documents on the event loop, the rest in
worker processes.
"""
