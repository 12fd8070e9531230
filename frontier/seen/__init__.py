"""The seen set: has this URL been met in this crawl?

There are three tiers: what this node pushed lately (`recent`), Bloom filters in the
store, and an exact set in the store. The first saves round trips. Where there is a set,
it decides; the filters beside it are written for the day on which it outgrows its
memory. `config` says which tiers a crawl has, how large they are, how they grow and
which keys a push is given; `bloom` and `intset` are their arithmetic. `seen_set` looks
a URL up, forgets it and says how full the tiers are, `plan` says what a crawl will
cost, `export` carries what was seen from crawl to crawl. Nodes keep sets within their
memory (`frontier.node.memory_limit`).

A URL is marked as seen by the script that queues it, in the same step: the packages
`queue` and `store` have those scripts. `frontier.dupefilter` serves other schedulers.
"""
