"""Seen sets as files: what one crawl has seen, for the next.

`file` is the format, with checksums; `transfer` reads the tiers of a crawl and writes
them into another. A file is of unknown origin: it is checked as it is read, and one
made by other rules is refused. `frontier seen export` and `import` call it; it blocks.
"""
