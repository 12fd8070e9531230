"""The seen set: has this URL been met in this crawl?

Three tiers: what this node pushed lately, Bloom filters in the store, and the exact
set in the store. The exact set decides; the other two save calls. `seen_set` has its
layout, `capacity_plan` what it will cost, `export` carries it from crawl to crawl.
"""
