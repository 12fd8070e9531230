"""WARC files: records, the thread that writes them, and the one reader.

`records` makes records of exchanges (ISO 28500), `file_rotation` files of records,
`writer_thread` keeps gzip and disk away from the event loop. A record is on disk
before its request is acked. `repair` closes what a killed node left open.
"""
