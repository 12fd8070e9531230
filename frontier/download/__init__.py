"""From a request to its response: what may be sent, to whom, and when.

`handler` sends a request and notes the bytes of both sides (`wire`); `capture` turns
them into what is archived. `politeness` holds a request until its lease is current and
its host may be asked; `robots`, `hops` and `addresses` say what may not be sent at all.
`conditional` asks whether a page has changed, `cookies` shares a login among nodes.

One table in `outcomes` says what each error means: its code in the crawl log, what it
is counted as, whether its host cannot be reached. When a host may be asked again, and
how many requests it may have at once, is decided in several places:

* `pace` has each host's delay and concurrency, from settings, operators and robots.txt;
* `politeness` applies them at the last moment, to what this node sends;
* `back_off` reacts to 429, 503 and failures by making requests wait;
* `frontier.node.hosts` has the record of each host, which all nodes share, and says how
  many of its URLs a node may have.

No request from the store is sent without a current lease. What a server sends is
hostile: sizes, times and redirects are limited. Scrapy calls all of this on its event
loop; large bodies go to files (`body_spool`) and to worker processes (`pages`,
`sitemaps`).
"""
