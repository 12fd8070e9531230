"""The URLs of the benchmarks: pages of links, always the same ones.

A page has `PER_PAGE` links, four of five to its own host. Of a hundred URLs 70
are a plain path, 15 have one parameter, 5 two in order and 5 two out of order, 2
have a fragment, 2 an escape and 1 a letter outside ASCII; those from the third
kind on are what a canonicalization has to work on.
"""

from __future__ import annotations

import random
from typing import Any

from scrapy import Request, Spider
from typing_extensions import override

PER_PAGE = 50
HOSTS = 200


class LinkSpider(Spider):
    """Has the callback of every request."""

    name = "bench"

    @override
    def parse(self, response: Any, **kwargs: Any) -> None:
        """Do nothing; nothing is ever fetched."""


def urls(count: int) -> list[list[str]]:
    """Pages of distinct URLs, *count* in all."""
    dice = random.Random(20)
    pages = []
    for start in range(0, count, PER_PAGE):
        own = (start // PER_PAGE) % HOSTS
        page = []
        for number in range(start, min(start + PER_PAGE, count)):
            host = own if dice.random() < 0.8 else dice.randrange(HOSTS)
            page.append(_url(host, number, dice.randrange(100)))
        pages.append(page)
    return pages


def requests(pages: list[list[str]], spider: Spider) -> list[list[Request]]:
    """The requests that Scrapy would make of *pages*, with what it adds to them."""
    return [
        [
            Request(
                url,
                callback=spider.parse,
                headers={"Referer": f"https://host-{number % HOSTS}.example/"},
                meta={"depth": 2},
            )
            for url in page
        ]
        for number, page in enumerate(pages)
    ]


def _url(host: int, number: int, kind: int) -> str:
    base = f"https://host-{host}.example/articles/2024/{number % 97}"
    if kind < 70:
        return f"{base}/a-story-about-number-{number}.html"
    if kind < 85:
        return f"{base}/list?id={number}"
    if kind < 90:
        return f"{base}/list?id={number}&page=2"
    if kind < 95:
        return f"{base}/list?page=2&id={number}"
    if kind < 97:
        return f"{base}/story-{number}.html#comments"
    if kind < 99:
        return f"{base}/a%20file%2d{number}.html"
    return f"{base}/größe-{number}.html"
