"""A spider written for plain Scrapy runs unchanged and yields the same items."""

import json
import os
import sys

import pytest
import warm
from conftest import HELD

from tests.harness.project import scrapy_project
from tests.warc.judges import read_warcio

SCRAPY = [sys.executable, "-m", "scrapy"]
SPIDER = """
import scrapy


class PlainSpider(scrapy.Spider):
    name = "plain"
    custom_settings = {"ROBOTSTXT_OBEY": False, "COOKIES_ENABLED": False}

    def __init__(self, bases="", **kwargs):
        super().__init__(**kwargs)
        self.bases = bases.split(",")
        self.start_urls = [f"{base}/about" for base in self.bases]

    def parse(self, response):
        base = response.url.removesuffix("/about")
        yield {"kind": "start", "url": response.url, "meta": sorted(response.meta)}
        for n in range(3):
            yield response.follow(
                f"/post/{n}",
                self.parse_post,
                cb_kwargs={"number": n, "tags": ("a", n)},
                meta={"base": base, "nested": {"list": [1, 2]}},
                priority=n,
            )
        yield scrapy.Request(f"{base}/missing", self.parse_post, errback=self.failed)
        yield scrapy.FormRequest(
            f"{base}/form",
            formdata={"a": "1", "b": "\\u00e9"},
            callback=self.parse_form,
        )
        yield scrapy.Request("data:,hello", self.parse_data)
        for _ in range(2):
            yield scrapy.Request(f"{base}/empty", self.parse_empty, dont_filter=True)

    def parse_post(self, response, number, tags):
        yield {
            "kind": "post",
            "url": response.url,
            "number": number,
            "tags": list(tags),
            "is_tuple": isinstance(tags, tuple),
            "base": response.meta["base"],
            "nested": response.meta["nested"],
            "meta": sorted(response.meta),
            "slot": response.meta["download_slot"],
        }
        lambda_url = response.urljoin(f"/post/{number + 3}")
        yield scrapy.Request(lambda_url, lambda r: self.parse_lambda(r, number))

    def parse_lambda(self, response, number):
        meta = sorted(response.meta)
        yield {"kind": "lambda", "url": response.url, "number": number, "meta": meta}

    def parse_form(self, response):
        yield {"kind": "form", "url": response.url, "body": response.text}

    def parse_empty(self, response):
        yield {"kind": "empty", "url": response.url, "size": len(response.body)}

    def parse_data(self, response):
        yield {"kind": "data", "url": response.url, "text": response.text}

    def failed(self, failure):
        yield {
            "kind": "failed",
            "url": failure.request.url,
            "status": failure.value.response.status,
            "slot": failure.request.meta["download_slot"],
        }
"""
PIPELINE = """
class Upper:
    def process_item(self, item, spider=None):
        item["seen_by_pipeline"] = True
        return item
"""


@pytest.fixture
def project(tmp_path):
    """A Scrapy project with the spider above; the add-on is not in it."""
    settings = 'ITEM_PIPELINES = {"own.Upper": 300}\nADDONS = {}\n'
    return scrapy_project(tmp_path / "project", SPIDER + PIPELINE, settings)


def items(*paths):
    lines = [
        line for path in paths for line in path.read_text("utf-8").splitlines() if line
    ]
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def test_a_plain_spider_yields_the_same_items_on_two_nodes(
    serve, cluster, project, tmp_path
):
    server = serve(urls=200, hosts=4, calendar_months=0)
    bases = ",".join(seed.rstrip("/") for seed in server.seeds)
    alone = tmp_path / "alone.jsonl"
    warm.run(
        [*SCRAPY, "crawl", "plain", "-a", f"bases={bases}", "-o", str(alone)],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(project)},
        check=True,
        capture_output=True,
    )

    with (project / "conf.py").open("a") as settings:
        settings.write('ADDONS = {"frontier.addon.Addon": 100}\n')
    server.delay = HELD
    outputs = [tmp_path / f"{node}.jsonl" for node in ("node-1", "node-2")]
    for output in outputs:
        cluster.start(
            output.stem,
            *("-a", f"bases={bases}", "-o", str(output)),
            spider="plain",
            cwd=project,
        )
    cluster.join()
    server.delay = 0

    cluster.finish()
    assert items(*outputs) == items(alone)
    assert len(items(alone)) == 4 * (1 + 3 + 1 + 1 + 2 + 3) + 1
    archived = [
        headers["WARC-Target-URI"]
        for path in cluster.warc_dir.glob("*.warc.gz")
        for kind, headers, *_ in read_warcio(path)
        if kind == "response"
    ]
    assert len(archived) > 20
    assert all(url.startswith("http://") for url in archived)  # no `data:`
