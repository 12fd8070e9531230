"""From a request to its answer: what may be sent, to whom, and when.

`handler` sends a request and notes the bytes of both sides (`wire`), of which `capture`
makes what is archived. `politeness` holds it until its lease is current and its host
may be asked; `robots`, `hops` and `addresses` say what may not be sent at all.
`conditional` asks whether a page has changed, `cookies` shares a login among nodes.

What an error means is one table in `outcomes`: its code in the crawl log, what it is
counted as, whether its host cannot be reached. When a host may be asked again, and how
many requests it may have at once:

* `pace` has the delay and the count of each host, of settings, operators, robots.txt;
* `politeness` keeps them at the last moment, for what is sent from here;
* `back_off` hears 429, 503 and failures, and has requests wait;
* `frontier.node.hosts` has the record of each host, which all nodes share;
* `frontier.node.host_politeness` says how many of its URLs a node may have.

No request that the store gave leaves without a current lease. What a server sends is
hostile: sizes, times and redirects are limited. Scrapy calls all of this on its event
loop; bodies that are large go to files (`body_spool`) and to worker processes
(`pages`, `sitemaps`).
"""
