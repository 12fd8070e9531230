"""CDXJ: which record of which WARC file holds a capture of which URL."""
