"""``scrapy progress``."""

import json
import subprocess

from scrapy.commands import ScrapyCommand


class Command(ScrapyCommand):
    """Says how much of the newest crawl is done."""

    requires_project = True
    default_settings = {"FRONTIER_ENABLED": False, "LOG_ENABLED": False}

    def short_desc(self):
        """The text of ``scrapy --help``."""
        return "Say how much of the newest crawl is done"

    def run(self, args, opts):
        """Print one line, from the JSON whose fields keep their meaning."""
        status = ["frontier", "crawl", "status", "--json"]
        done = subprocess.run(status, stdout=subprocess.PIPE, check=True)
        queue = json.loads(done.stdout)["queue"]
        print(f"{queue['acked']} of {queue['pushed']} URLs are done")
