"""The digest index of a collection, between and beside crawls.

A collection is the crawls that are deduplicated together. Its layout in Redis is
Browsertrix's (`frontier.dedupe.digest_index`). `commit` offers the digests of a crawl
to the others, `import_` adds those of other archives, `purge` takes crawls and
captures out, `check` mends what is wrong.

An import, commit or purge that is interrupted leaves an index that crawls can read,
and can be started again. Sources are files of unknown origin: sizes
are capped, paths confined. Callers: commands of `cli`, which block, and the end of a
crawl (`node.archiving`), in a thread. Never on the event loop.
"""
