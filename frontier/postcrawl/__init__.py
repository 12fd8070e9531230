"""Deduplication after the crawl, for WARC files that were made without it.

A *manifest* has a row for each record of a file: where it is, and the digest of its
payload. A *plan* says, from all manifests together, which captures are copies of an
earlier one. *apply* rewrites the files with a revisit record in place of each copy;
all other records keep their bytes. *verify* proves, from the files alone, that every
capture is still there; *restore* turns the revisits into responses again.

Nothing is a copy because a manifest says so: before a record loses its payload, it
and its original are read and compared.
"""
