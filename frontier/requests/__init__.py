"""Scrapy's requests, on their way from a spider to the queue and back.

`stored_request` turns requests into records and back, and says which objects may
travel; `local_requests` is for those that cannot; `identities` tells commands what a
URL is to a crawl. `recrawls`, `left_out` and `discovery` are features. All of it runs
on the event loop, once for each link that a spider finds: microseconds count.
"""
