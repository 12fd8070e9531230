"""What this project plugs in, and names in its settings."""

import asyncio
import os
from pathlib import Path
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.exceptions import IgnoreRequest

from frontier import Part

MIRRORS = {"127.0.0.3:8500": "127.0.0.2:8500"}


def server(url):
    """The queue key of *url*: a mirror takes turns with the server that it runs on."""
    host = urlsplit(url).netloc
    return MIRRORS.get(host, host)


class CountTitles:
    """An item pipeline that counts pages with a title."""

    def __init__(self, stats):
        self.stats = stats

    @classmethod
    def from_crawler(cls, crawler):
        """Build the pipeline of *crawler*."""
        return cls(crawler.stats)

    def process_item(self, item):
        """Count *item*, and pass it on."""
        if item["title"]:
            self.stats.inc_value("shop/titles")
        return item


class SeenElsewhere:
    """A seen tier: what another crawler has fetched is not fetched again.

    A downloader middleware, so it is asked once for each new URL, not for each link.
    """

    def __init__(self, crawler):
        self.fingerprint = crawler.request_fingerprinter.fingerprint
        urls = Path(crawler.settings["SEEN_ELSEWHERE"]).read_text("utf-8").split()
        self.seen = {self.fingerprint(Request(url)) for url in urls}

    @classmethod
    def from_crawler(cls, crawler):
        """Build the tier of *crawler*."""
        return cls(crawler)

    def process_request(self, request):
        """Let *request* pass if it is new; otherwise it is done, and not sent."""
        if self.fingerprint(request) in self.seen:
            raise IgnoreRequest("another crawler has fetched it")


class Ledger(Part):
    """A part: a line for each URL that is done, on disk before the store forgets it."""

    def __init__(self, node_id):
        self.path = Path(f"done-{node_id}.txt")

    @classmethod
    def from_node(cls, node):
        """Build the part of *node*."""
        return cls(node.config.node_id)

    async def before_ack(self, reservations):
        """Return when the lines are on disk; a thread waits for it, not the node."""
        lines = "".join(f"{each.queue}\n" for each in reservations)
        await asyncio.to_thread(self.write, lines)

    def write(self, lines):
        """Add *lines* to the file."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
