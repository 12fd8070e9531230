"""Pages made to keep a node busy: all others are fetched, and those are told."""

import gzip
import re
from pathlib import Path

from conftest import says

from tests.rawsite import RawSite, answer, page

SLOW = 200_000
"""Bytes of what took minutes."""
PAGES = [f"/page/{number}" for number in range(12)]


def said(body, kind="text/html; charset=utf-8"):
    return answer(body, f"Content-Type: {kind}")


HOSTILE = {
    "/sheet.css": said(b"url(" * (SLOW // 4) + b") url(/shown)", "text/css"),
    "/blanks": said(b'<img srcset="' + b" " * SLOW + b'"><a href="/after/blanks">'),
    "/style": said(
        b'<p style="' + b"url(" * (SLOW // 4) + b'"><a href="/after/style">'
    ),
    "/nested": said(b"<div>" * 300 + b'<a href="/after/nested">'),
}
AFTER = ["/shown", "/after/blanks", "/after/style", "/after/nested"]
DEEP = b'<a href="/read">' + b"<div>" * 20_000 + b'<a href="/not/read">'
TOO_MUCH = b"<p " + b"".join(b"a%d=1 " % n for n in range(100_000)) + b">"


def test_hostile_pages_are_read_and_too_costly_ones_are_dead_letters(cluster):
    pages = {path: said(b"<title>page</title>") for path in [*PAGES, *AFTER, "/read"]}
    pages["/"] = page(*HOSTILE, "/much", "/deep", *PAGES)
    pages["/much"], pages["/deep"] = said(TOO_MUCH), said(DEEP)
    site = RawSite({**pages, **HOSTILE})
    site.open.clear()
    for node_id in ("node-1", "node-2"):
        cluster.start(
            node_id,
            *("-a", f"seeds={site.url('/')}"),
            ROBOTSTXT_OBEY="False",
            FRONTIER_WORKER_SECONDS="0.2",
        )
    cluster.join()
    site.open.set()

    cluster.finish()
    text = cluster.text_of("node-1") + cluster.text_of("node-2")
    assert site.requests.keys() >= {*pages, *HOSTILE}
    assert "/not/read" not in site.requests
    for path, reason in {"/much": "more than 0.2 s of CPU", "/deep": "depth"}.items():
        told = f"{site.url(path)} is archived, but not all of its links are followed: "
        (line,) = [line for line in text.splitlines() if told in line]
        assert reason in line
    assert text.count("is archived, but not all") == 2
    assert cluster.store  # starts it again, for the command
    dead = cluster.shown("crawl", "dead")
    reasons = {letter["url"]: letter["reason"] for letter in dead["letters"]}
    assert reasons.keys() == {site.url("/much"), site.url("/deep")}
    assert "0.2 s of CPU time" in reasons[site.url("/much")]
    records = b"".join(
        gzip.decompress(path.read_bytes()) for path in cluster.warc_dir.glob("*.gz")
    )
    assert b"WARC-Target-URI: %b" % site.url("/much").encode() in records
    assert TOO_MUCH in records


def peak_of(node):
    """The most bytes of memory that the process has had."""
    status = Path(f"/proc/{node.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_a_page_that_unpacks_to_much_is_in_memory_once_and_its_start_is_read(cluster):
    start = '<title>\N{SNAIL}</title><a href="/read">x</a>'.encode()
    much = start + b"x" * 100_000_000  # five bytes for each, as text
    kinds = ("Content-Type: text/html", "Content-Encoding: gzip")
    site = RawSite({"/much": answer(gzip.compress(much, 1), *kinds), "/read": page()})
    node = cluster.start("node-1", "-a", f"seeds={site.url('/much')}")
    cluster.join()
    before = peak_of(node)
    says(cluster, "only its first 10,240,000 bytes are read for links")
    grown = peak_of(node) - before

    cluster.finish()
    assert grown < 1.6 * len(much)
    assert "/read" in site.requests
