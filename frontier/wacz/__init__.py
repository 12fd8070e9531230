"""WACZ: the WARC files of a crawl, their index and their pages in one file.

`create` makes a WACZ 1.1.1, and `check` says what is wrong with one from any tool. A
file is overwritten only with ``--force``, and half a file is never left. What a WACZ or
its WARC files say is not trusted. Called by commands of `cli` and by the last node of a
crawl; it blocks, and copies with threads.
"""
