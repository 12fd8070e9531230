"""Why a URL was, or was not, crawled: what the store, logs and archives say of it.

An operator, an archivist or the owner of a site asks this of one URL. `checks` is a
chain of checks, in the order of a URL's life. What they find is the evidence; the
finding of the highest rank is the answer.

* `in_store` reads the store: the seen test, queues, reservations, dead letters, leases,
  what operators want, hosts that are left alone, quotas.
* `in_logs` reads crawl logs to their end: attempts, and from which page each came.
* `in_archive` looks into indexes by binary search, and into WARC files that have none.
* `files` says which files there are, and which are of this crawl.

What always holds:

1.  Nothing is changed and nothing is fetched. No lease is taken.
2.  Each statement has its source. What is computed here and was never recorded is
    called so: links that are dropped where a page is parsed leave no trace.
3.  What could not be looked at is named, with what to do about it. Where it might
    change the answer, the answer is called uncertain. A damaged key of the store ends
    it, as it ends a node.
4.  Nothing that is read is trusted: time is linear in its size, memory is bounded, and
    what cannot be read is left out and named.

Called by ``frontier explain``, in its only thread; it blocks.
"""
