"""Recrawls: when a page that was fetched is fetched again.

A crawl with ``FRONTIER_RECRAWL`` has a **schedule**: each page that it fetched is put
back into its queue, with the time at which it is due next. The time until then is its
**interval**. With ``fixed`` it never changes. With ``adaptive`` it grows by a factor if
a visit finds the page unchanged, and shrinks if the page has changed.

`schedule` says what a visit does to the interval, and packs what is remembered of a URL
into nine bytes, which travel in its queue item. `rules` reads ``recrawl.toml``, by
which hosts, paths and media types have schedules of their own. `text_digest` tells
whether the text of a page has changed, for pages whose bytes always have. `hasten`
makes pages due now.

Only `hasten` speaks to the store, and none of them to Scrapy.
`frontier.requests.recrawls` asks the others after each visit, and
`frontier.status.schedules` reports what waits.
"""
