"""CDXJ: which record of which WARC file holds a capture of which URL.

`lines` makes and reads the lines as cdxj-indexer and pywb write them, `methods` says
how a request other than a GET is filed, `cdxj_fields` what our lines have beyond
those of others, `declared_rules` under which rules a file was made, and `sorting` keeps
memory flat while an index is made.

A line that another tool wrote is never trusted: each field is checked and its length
is capped. Callers: the writer thread (`warc.cdxj_sidecar`), commands of `cli`, and
`collection`. Nothing here runs on the event loop.
"""
