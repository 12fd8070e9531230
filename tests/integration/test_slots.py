"""Downloader slots of one host: each has its delay, and none waits for another."""

import json
from urllib.parse import urlsplit

from tests.harness.project import scrapy_project

SPIDER = """
import scrapy

DELAYS = {"fast": 0.5, "slow": 2.0}


class SlotsSpider(scrapy.Spider):
    name = "slots"
    custom_settings = {
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_DELAY_JITTER": 0,
        "DOWNLOAD_SLOTS": {n: {"delay": d, "jitter": 0} for n, d in DELAYS.items()},
    }

    async def start(self):
        for number in range(4):
            for slot in (*DELAYS, None):
                yield scrapy.Request(
                    f"{self.base}/missing/{slot}/{number}", meta={"download_slot": slot}
                )
        yield scrapy.Request(f"{self.base}/missing/first/0")

    handle_httpstatus_list = [404]

    def parse(self, response):
        if "/first/" in response.url:
            yield scrapy.Request(f"{self.other}/missing/next/0", meta=response.meta)
        yield {"url": response.url, "slot": response.meta["download_slot"]}
"""
SLACK = 0.4
"""Seconds that requests take longer or shorter from the node to the log."""


def test_each_slot_of_a_host_has_its_own_delay(serve, cluster, tmp_path):
    server = serve(urls=130, hosts=2, calendar_months=1)
    root = scrapy_project(tmp_path / "project", SPIDER)
    base, other = (seed.rstrip("/") for seed in server.seeds)
    output = tmp_path / "items.jsonl"
    words = ("-a", f"base={base}", "-a", f"other={other}", "-o", str(output))
    cluster.start("node-1", *words, spider="slots", cwd=root, DOWNLOAD_DELAY="1")

    cluster.finish()
    items = [json.loads(line) for line in output.read_text().splitlines()]
    slots = {item["url"].split("/")[-2]: item["slot"] for item in items}
    hosts = [urlsplit(url).hostname for url in (base, other)]
    assert slots == {
        "fast": "fast",
        "slow": "slow",
        "None": hosts[0],
        "first": hosts[0],
        "next": hosts[1],  # though its request has all that `response.meta` has
    }
    starts = {}
    for entry in server.requests().entries:
        if "/first/" not in entry.url and "/next/" not in entry.url:
            starts.setdefault(entry.url.split("/")[-2], []).append(entry.start)
    assert {slot: len(times) for slot, times in starts.items()} == {
        "fast": 4,
        "slow": 4,
        "None": 4,
    }
    for slot, delay in {"fast": 0.5, "None": 1.0, "slow": 2.0}.items():
        all_four = max(starts[slot]) - min(starts[slot])
        assert all_four >= 3 * delay - SLACK - server.late
