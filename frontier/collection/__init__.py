"""The digest index of a collection, between and beside crawls.

A collection is the crawls that are deduplicated together. `digest_index` is its layout
in Redis, which is Browsertrix's. `commit` offers the digests of a crawl to the others,
`import_` adds those of other archives, `purge` takes crawls out, `check` and `rekey`
mend what is wrong.

An import, a commit or a purge that is interrupted leaves an index that crawls can
read, and goes on when it is started again. Sources are files of unknown origin: sizes
are capped, paths confined. Callers: commands of `cli`, which block, and the end of a
crawl (`node.archiving`), in a thread. Never on the event loop.
"""
