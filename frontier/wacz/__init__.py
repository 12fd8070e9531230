"""WACZ: the WARC files of a crawl, their index and their pages in one file.

`create` makes one, by WACZ 1.1.1, `check` says what is wrong with one, whoever made
it. A file that is there is overwritten only when told, and an interrupted command
leaves no half of one. What a WACZ or its WARC files say is not trusted. Commands of
`cli` call it; it blocks, and copies with threads.
"""
