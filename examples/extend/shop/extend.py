"""What this project plugs in, and names in its settings."""

from urllib.parse import urlsplit

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
