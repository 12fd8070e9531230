"""WARC files: records, the thread that writes them, and the one reader.

`records` makes records of exchanges (ISO 28500), `file_rotation` files of records,
`batch` chooses between response and revisit and writes many at a time, and
`writer_thread` keeps gzip and disk away from the event loop. `repair` closes the files
of killed nodes, `upload` copies closed files to object storage, `remote_files` reads
what is there, and `disk_space` limits how much files take.

A record is on disk before its request is acked, and before its digest is in the index.
The event loop hands an exchange over and gets a future; the thread does the rest.
"""
