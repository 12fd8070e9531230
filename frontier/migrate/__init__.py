"""Migration: what scrapy-redis has left of a spider, taken over by a crawl.

A crawl that is taken over goes on with the requests that were queued, and does not
fetch what was fetched. The server of scrapy-redis is read and never written, so it can
go on should the frontier not be what was wanted. Nothing that is read there is trusted.

* `scrapy_redis` reads its keys: the queue, the duplicate filter, the start URLs.
* `pickles` reads pickles as data. No class is looked up, and nothing is called.
* `migration` does it all in the order that loses nothing: first what was seen, then the
  queue, with the crawl kept open meanwhile. To repeat it doubles nothing.

Each request is counted once: as queued, seen or left out, with a reason. What was
seen becomes the imported filter of the crawl, which nodes ask; it is no part of this
package.

Called by ``frontier migrate scrapy-redis``, in its only thread; it blocks.
"""
