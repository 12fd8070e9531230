"""WARC files: records, the thread that writes them, and the one reader.

`records` makes records of exchanges (ISO 28500), `file_rotation` files of records,
`batch` decides and writes many at a time, and `writer_thread` keeps gzip and disk away
from the event loop. `repair` closes what a killed node left open, `upload` copies
closed files to object storage, `disk_space` limits what they take.

A record is on disk before its request is acked, and before its digest is in the index.
The event loop hands exchanges over and gets a future; everything else is the thread's.
"""
