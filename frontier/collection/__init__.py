"""The digest index of a collection, between crawls and alongside them.

A collection is a set of crawls that are deduplicated together. Its layout in Redis is
Browsertrix's (`frontier.dedupe.digest_index`). `rounds` commits the digests of a crawl,
so that the others can use them; `import_` adds those of other archives, `purge` removes
crawls and captures, and `check` repairs what is wrong.

An import, commit or purge that is interrupted can be started again; meanwhile crawls
can read the index. Sources are files of unknown origin: sizes are capped, paths
confined. Callers: commands of `cli`, which block, and the end of a crawl
(`node.archiving`), in a thread. Never on the event loop.
"""
