"""Scrapy's requests, on their way from a spider to the queue and back.

`stored_request` makes items of them and them of items, `item_classes` says which
objects may travel, `local_requests` is for those that cannot. Runs on the event loop,
once for each link that a spider finds, and is counted in microseconds.
"""
