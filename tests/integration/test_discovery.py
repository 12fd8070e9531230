"""How each URL was found, and what became of each attempt."""

import io
import json
import re
import socket
import sys
import zipfile
from pathlib import Path

import pytest
import warm
from conftest import Cluster
from fastwarc.warc import ArchiveIterator, WarcRecordType

from tests.harness import commands
from tests.harness.commands import output_of
from tests.rawsite import RawSite, answer, page, redirect
from tests.warc.judges import (
    assert_sound,
    read_fastwarc,
    read_warcio,
)

PROJECT = """
import scrapy


class Found(scrapy.Spider):
    name = "found"

    def __init__(self, origin, refused, **kwargs):
        super().__init__(**kwargs)
        self.origin, self.refused = origin, refused
        self.start_urls = [f"{origin}/seed"]

    def parse(self, response):
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, meta=response.meta, errback=self.failed)
        if response.url.endswith("/seed"):
            yield scrapy.FormRequest(f"{self.origin}/form", formdata={"a": "1"})
            yield scrapy.Request(f"{self.refused}/x", errback=self.failed)
            yield scrapy.Request("http://nowhere.invalid/", errback=self.failed)

    def failed(self, failure):
        pass
"""


PAGES = {
    "/robots.txt": answer(
        "User-agent: *\nDisallow: /private\n", "Content-Type: text/plain"
    ),
    "/seed": page("/one", "/private/a", "/gone#part"),
    "/one": page("/moved"),
    "/moved": redirect("/again"),
    "/again": redirect("/landed"),
    "/landed": page("/last", "/cut"),
    "/last": page(),
    "/form": page("/after", "/one#seen"),
    "/after": page(),
    "/cut": lambda connection: connection.close(),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    directory = tmp_path_factory.mktemp("found")
    closed = socket.socket()  # it is bound, so that nobody listens there meanwhile
    closed.bind(("127.0.0.1", 0))
    refused = f"http://127.0.0.1:{closed.getsockname()[1]}"
    site = RawSite(PAGES)
    cluster = Cluster(directory)
    (directory / "found.py").write_text(PROJECT)
    run = [sys.executable, "-m", "scrapy", "runspider", str(directory / "found.py")]
    for name, value in {
        "ADDONS": json.dumps({"frontier.addon.Addon": 100}),
        "FRONTIER_STORE_DIR": cluster.store_dir,
        "FRONTIER_WARC_DIR": cluster.warc_dir,
        "FRONTIER_WACZ_DIR": directory / "waczs",
        "FRONTIER_WARC_OUTLINKS": "True",
        "ROBOTSTXT_OBEY": "True",
        "RETRY_TIMES": 1,
        "DNS_TIMEOUT": 20,
        "FRONTIER_UPLINK_PROBE": 0,  # two of three hosts fail, and are counted
        "TELNETCONSOLE_ENABLED": "False",
    }.items():
        run += ["-s", f"{name}={value}"]
    run += ["-a", f"origin={site.origin}", "-a", f"refused={refused}"]
    done = warm.run(run, cwd=directory, capture_output=True, text=True, check=False)
    site.close()
    closed.close()
    assert done.returncode == 0, done.stderr
    (log,) = cluster.warc_dir.glob("*.crawl.log")
    return site.origin, refused, cluster.warc_dir, log, directory / "waczs"


def metadata(directory):
    """Target to what is said of it; and the ids of all captures."""
    said, ids = {}, {}
    for path in directory.glob("*.warc.gz"):
        for record in ArchiveIterator(io.BytesIO(path.read_bytes()), parse_http=False):
            target = record.headers.get("WARC-Target-URI")
            if record.record_type == WarcRecordType.metadata and "urn:" not in target:
                lines = record.reader.read().decode().splitlines()
                if lines[0].startswith("outlink: "):
                    continue
                facts = dict(line.split(": ", 1) for line in lines)
                assert record.headers["WARC-Concurrent-To"] in ids.values()
                assert record.headers["Content-Type"] == "application/warc-fields"
                said[target] = facts
            elif record.record_type & (
                WarcRecordType.response | WarcRecordType.revisit
            ):
                ids[target] = record.headers["WARC-Record-ID"]
    return said, ids


def test_each_capture_says_how_it_was_found(crawled):
    origin, _, directory, *_ = crawled
    said, ids = metadata(directory)
    assert said.keys() == ids.keys()

    found = {
        url.removeprefix(origin): (
            facts.get("via", "").removeprefix(origin),
            facts.get("hopsFromSeed"),
            facts.get("sourceTag", "").removeprefix(origin),
        )
        for url, facts in said.items()
    }
    assert found == {
        "/seed": ("", None, ""),
        "/robots.txt": ("", "P", ""),
        "/one": ("/seed", "L", "/seed"),
        "/gone": ("/seed", "L", "/seed"),
        "/moved": ("/one", "LL", "/seed"),
        "/again": ("/moved", "LLR", "/seed"),
        "/landed": ("/again", "LLRR", "/seed"),
        "/last": ("/landed", "LLRRL", "/seed"),
        "/form": ("/seed", "S", "/seed"),
        "/after": ("/form", "SL", "/seed"),
    }
    assert said[f"{origin}/seed"].keys() == {"seed", "fetchTimeMs"}
    assert all(facts["fetchTimeMs"].isdecimal() for facts in said.values())


def test_the_outlinks_of_each_page_are_recorded_before_anything_drops_them(crawled):
    origin, refused, directory, *_ = crawled
    (path,) = directory.glob("*.warc.gz")
    assert_sound(path)
    assert read_fastwarc(path)
    pages, links = {}, {}
    for kind, headers, _, block in read_warcio(path):
        target = headers.get("WARC-Target-URI", "").removeprefix(origin)
        if kind in ("response", "revisit"):
            pages[target] = headers["WARC-Record-ID"], headers["WARC-Date"]
        elif kind == "metadata" and block.startswith(b"outlink: "):
            about = headers["WARC-Concurrent-To"], headers["WARC-Date"]
            assert about == pages[target]
            assert headers["Content-Type"] == "application/warc-fields"
            lines = block.decode("ascii").splitlines()
            words = [line.removeprefix("outlink: ").split(" ") for line in lines]
            assert target not in links
            links[target] = [(u.removeprefix(origin), hop) for u, hop, _ in words]
            assert {word[2] for word in words} == {"=NAVLINK_MISC"}

    assert links == {
        "/seed": [
            ("/one", "L"),
            ("/private/a", "L"),
            ("/gone", "L"),
            ("/form", "S"),
            (f"{refused}/x", "L"),
            ("http://nowhere.invalid/", "L"),
        ],
        "/one": [("/moved", "L")],
        "/landed": [("/last", "L"), ("/cut", "L")],
        "/form": [("/after", "L"), ("/one", "L")],
    }


def test_indexers_pass_over_records_of_outlinks(crawled):
    _, _, directory, *_ = crawled
    (path,) = directory.glob("*.warc.gz")

    words = [Path(sys.executable).parent / "cdxj-indexer", "-p", path]
    said = output_of(words)

    (ours,) = directory.glob("*.cdxj")
    theirs, lines = (
        sorted(x.split(" ")[:2] for x in text.splitlines() if x[:4] != "urn:")
        for text in (said, ours.read_text())
    )
    assert len(lines) == 10
    assert theirs == lines


def test_the_log_has_every_attempt_with_what_heritrix_has_for_it(crawled):
    origin, refused, _, log, _ = crawled
    lines = [line.split(None, 11) for line in log.read_text("ascii").splitlines()]
    assert {len(line) for line in lines} == {12}
    by_url = {}
    for line in lines:
        by_url.setdefault(line[3].removeprefix(origin), []).append(line)

    statuses = {url: [int(line[1]) for line in found] for url, found in by_url.items()}
    assert statuses == {
        "frontier:born": [0],
        "/seed": [200],
        "/robots.txt": [200],
        f"{refused}/robots.txt": [-2, -2],
        f"{refused}/x": [-2, -2],
        "http://nowhere.invalid/robots.txt": [-1, -1],
        "http://nowhere.invalid/": [-1, -1],
        "/private/a": [-9998],
        "/cut": [-3, -3],
        "/one": [200],
        "/gone": [404],
        "/moved": [302],
        "/again": [302],
        "/landed": [200],
        "/last": [200],
        "/form": [200],
        "/after": [200],
    }
    (seed,), (landed,) = by_url["/seed"], by_url["/landed"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", seed[0])
    assert seed[4:8] == ["-", "-", "text/html", "#001"]
    assert re.fullmatch(r"\d{17}\+\d+", seed[8])
    assert seed[10] == f"{origin}/seed"
    assert landed[4:6] == ["LLRR", f"{origin}/again"]
    assert landed[10] == f"{origin}/seed"
    assert by_url["/cut"][1][11] == "2t"
    assert by_url["/private/a"][0][8] == "-"  # nothing was sent


def test_the_log_is_in_the_wacz_that_the_node_makes_and_in_that_of_the_command(
    crawled, tmp_path
):
    *_, directory, log, waczs = crawled
    (made,) = waczs.glob("*.wacz")
    own = tmp_path / "own.wacz"
    assert commands.run("wacz", "create", own, directory).returncode == 0

    for path in (made, own):
        assert f"logs/{log.name}" in zipfile.ZipFile(path).namelist()
        done = commands.run("wacz", "check", path)
        assert done.returncode == 0, done.stdout
