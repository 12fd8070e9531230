"""Why a URL was, or was not, crawled: what the store, logs and archives say of it.

An operator, an archivist or the owner of a site asks this of one URL. The answer is
put together from evidence, in the order of a URL's life: what it is to the crawl,
whether it is excluded, in scope or a trap, whether and from where it was found, where
it is queued, what became of each attempt, which record it has.

* `in_store` reads the store: the seen test, queues, reservations, dead letters, leases,
  what operators want, hosts that are left alone, quotas.
* `in_logs` reads crawl logs to their end: attempts, and from which page each came.
* `in_archive` looks into indexes by binary search, and into WARC files that have none.
* `rules` says what no record tells: links that are dropped where a page is parsed
  leave no trace, so scope, traps, address classes and robots.txt are looked at again,
  with the settings that the crawl has and the robots.txt that it was sent.
* `verdict` weighs it all, and names what was not looked at.

What always holds:

1.  Nothing is changed and nothing is fetched. No lease is taken.
2.  Each statement has its source. What is computed here and was never recorded is
    called so.
3.  What could not be looked at is named, with what to do about it. Where it might
    change the answer, the answer is called uncertain.
4.  Nothing that is read is trusted: time is linear in its size, memory is bounded, and
    what cannot be read is left out and named.

Called by ``frontier explain``, in its only thread; it blocks.
"""
