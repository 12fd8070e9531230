"""Why a URL was, or was not, crawled: what the store, logs and archives say about it.

An operator, an archivist or the owner of a site asks this about one URL. `checks` is a
chain of checks, in the order of a URL's life. Their findings are the evidence; the
finding with the highest rank is the answer.

* `in_store` reads the store: the seen test, queues, reservations, dead letters, leases,
  operators' settings, hosts that are left alone, quotas.
* `in_logs` reads crawl logs to their end: attempts, and the page that each came from.
* `in_archive` searches indexes by bisection, and reads WARC files that have none.
* `files` finds the files, and says which are of this crawl.

What always holds:

1.  Nothing is changed and nothing is fetched. No lease is taken.
2.  Each statement has its source. What is computed here and was never recorded is
    marked as such: links that are dropped where a page is parsed leave no trace.
3.  What could not be looked at is named, with what to do about it. If it might change
    the answer, the answer is called uncertain. A damaged key of the store ends the
    explanation, as it ends a node.
4.  Nothing that is read is trusted: time is linear in its size, memory is bounded, and
    what cannot be read is left out and named.

Called by ``frontier explain``, in its only thread; it blocks.
"""
