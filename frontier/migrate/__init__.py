"""Migration: a crawl takes over what scrapy-redis has left of a spider.

The crawl goes on with the requests that were queued, and does not fetch again what was
fetched. The server of scrapy-redis is read and never written, so scrapy-redis can go on
if the frontier is not what was wanted. Nothing that is read there is trusted.

* `scrapy_redis` reads its keys: the queue, the duplicate filter, the start URLs.
* `pickles` reads pickles as data. No class is looked up, and nothing is called.
* `migration` does it all in the order that loses nothing: first what was seen, then the
  queue, with the crawl kept open meanwhile. Repeating it queues nothing twice.

Each request is counted once: as queued, seen or left out, with a reason. What was
seen becomes the imported filter of the crawl, which nodes ask; it is not part of this
package.

Called by ``frontier migrate scrapy-redis``, in its only thread; it blocks.
"""
