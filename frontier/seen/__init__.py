"""The seen set: has this URL been met in this crawl?

Three tiers: what this node pushed lately, Bloom filters in the store, and the exact
set in the store. The exact set decides; the other two save round trips. `config` says
which tiers a crawl has, `bloom` and `intset` are their arithmetic, `seen_set` has the
layout, `memory_limit` what is given up when it is full, `capacity_plan` what it will
cost, `export` carries it from crawl to crawl.

A URL is marked as seen by the script that queues it, in the same step: the packages
`queue` and `store` have those scripts. `blocking_test` serves other schedulers.
"""
