"""Response or revisit: which payloads the collection has already.

`digest` and `match_keys` say when two payloads are the same, `digest_index` finds the
original, and `revisit_policy` decides whether a revisit record may point to it. All
of it runs in the thread that writes WARC files, never on the event loop. An original
is used only if its record has been written: a revisit never points to nothing.
"""
