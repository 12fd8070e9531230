"""CDXJ: which record of which WARC file holds a capture of which URL.

`lines` makes and reads lines as cdxj-indexer and pywb write them, also for requests
other than GET, and adds what a WACZ needs. `sorting` keeps memory flat while an index
is made.

A line that another tool wrote is never trusted: each field is checked and its length
is capped. Callers: the writer thread (`warc.cdxj_sidecar`), commands of `cli`, and
`collection`. Nothing here runs on the event loop.
"""
