"""WACZ: the WARC files of a crawl, their index and their pages in one file.

`create` makes one by WACZ 1.1.1, and `check` says what is wrong with one of any tool. A
file is overwritten only with ``--force``, and half a file is never left. What a WACZ or
its WARC files say is not trusted. Commands of `cli` and the last node of a crawl call
it; it blocks, and copies with threads.
"""
