"""WACZ: the WARC files of a crawl, their index and their pages in one file."""
