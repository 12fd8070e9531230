"""From a request to its answer: what may be sent, to whom, and when.

`handler` sends a request and notes the bytes of both sides (`wire`), of which `capture`
makes what is archived. `politeness` holds it until its lease is current and its host
may be asked; `robots`, `hops` and `addresses` say what may not be sent at all.
`conditional` asks whether a page has changed, `cookies` shares a login among nodes. Why
a request got no answer, with the errors that say so, is in `outcomes`.

No request that the store gave leaves without a current lease. What a server sends is
hostile: sizes, times and redirects are limited. Scrapy calls all of this on its event
loop; bodies that are large go to files (`body_spool`) and to worker processes
(`pages`, `sitemaps`).
"""
