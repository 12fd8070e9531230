"""Journals: what a node handed to a store that may forget it, on its own disk.

A separate thread writes the journal. The next node, or `frontier crawl rebuild`, reads
it if the store has lost what the journal has.
"""
