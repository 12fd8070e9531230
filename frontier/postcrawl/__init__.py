"""Deduplication after the crawl, of WARC files that were made without it.

A *manifest* has a row for each record of a file: where it is, and the digest of its
payload. A *plan* says, of all manifests together, which captures are copies of an
earlier one. To *apply* it is to write the files again, with a revisit record in place
of each copy; all other records stay the bytes that they were. *verify* proves, from
the files alone, that every capture is still there; *restore* makes responses of the
revisits again.

Nothing is a copy because a manifest says so: before a record loses its payload, it
and its original are read and compared.
"""
