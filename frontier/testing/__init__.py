"""A web site to crawl in tests, and what a crawl of it must fetch.

`site` says what each URL answers, `server` serves it on loopback, `oracle` knows what
must be fetched, and what was. ``frontier demo`` and benchmarks use it, too.
"""
