"""robots.txt that fails, redirects, or is too large, as RFC 9309 has it."""

import contextlib
import gzip
import re
import socket
import threading
from pathlib import Path

import pytest
from conftest import DEADLINE, FAST, until

from frontier.download.robots import LIMIT
from tests.rawsite import SLOW, RawSite, answer, page, redirect

PAGES = ("/no", "/yes")
release = threading.Event()


class Endless:
    """A robots.txt of a gigabyte, of which it counts what was taken."""

    sent = 0

    def __call__(self, connection):
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
        rules = b"".join(b"Disallow: /filler/%d\n" % n for n in range(4_000))
        connection.sendall(head + b"User-agent: *\nDisallow: /no\n")
        with contextlib.suppress(OSError):
            while self.sent < 1_000_000_000:
                connection.sendall(rules)
                self.sent += len(rules)


def hang(connection):
    release.wait(DEADLINE)


def bomb():
    """204 kB that are 50 MB of rules."""
    lines = b"".join(b"Disallow: /filler/%d\n" % n for n in range(1_000))
    return gzip.compress(b"User-agent: *\nDisallow: /no\n" + lines * 2_500, 6)


def cut_in_a_rule():
    """Rules of which the last that is read would forbid all, if it were read."""
    head = b"User-agent: *\nDisallow: /no\n"
    end = b"Disallow: /"
    filler = b"#" * (LIMIT - len(head) - len(end) - 1) + b"\n"
    return head + filler + end + b"private\n" * 100


@pytest.fixture
def sites():
    """Sites whose start pages lead to `PAGES`, by name."""
    made = {}

    def add(name, robots):
        pages = {"/": page(*PAGES), "/no": page(), "/yes": page()}
        site = RawSite(pages, address=SLOW if robots is hang else "127.0.0.1")
        if robots is not None:
            site.pages["/robots.txt"] = robots
        made[name] = site
        return site

    rules = answer(b"User-agent: *\nDisallow: /no\n")
    last = add("plain", rules)
    last.pages["/hop4"] = redirect(last.url("/rules"))
    last.pages["/rules"] = rules
    hops = add("hops", None)
    for n in range(4):
        to = hops.url(f"/hop{n + 1}") if n < 3 else last.url("/hop4")
        hops.pages[f"/hop{n}"] = redirect(to)
    hops.pages["/robots.txt"] = hops.pages.pop("/hop0")
    loop = add("loop", None)
    loop.pages["/robots.txt"] = redirect(loop.url("/robots.txt"))
    inside = redirect("http://169.254.169.254/robots.txt")
    for name, robots in {
        "missing": None,
        "forbidden": answer(b"", status="403 Forbidden"),
        "broken": answer(b"", status="503 Service Unavailable"),
        "busy": answer(b"", status="429 Too Many Requests"),
        "hanging": hang,
        "inside": inside,
        "endless": Endless(),
        "bomb": answer(bomb(), "Content-Encoding: gzip"),
        "cut": answer(cut_in_a_rule()),
        "coded": rules.replace(b"Con", b"Content-Encoding: gzip\r\nCon", 1),
    }.items():
        add(name, robots)
    yield made
    release.set()
    for site in made.values():
        site.close()


@pytest.fixture
def closed_port():
    """A port that is bound, so that nobody listens there meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def peak_of(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


RULED = ("plain", "hops", "cut", "coded", "endless")
OPEN = ("missing", "forbidden", "loop")
SHUT = ("broken", "busy", "hanging", "inside", "bomb")


def test_robots_txt_rules_absence_and_failure_are_obeyed(
    cluster, sites, closed_port, tmp_path
):
    absent = f"http://127.0.0.1:{closed_port}/"
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join([*(s.url("/") for s in sites.values()), absent]))
    node = cluster.start(
        "a",
        "-a",
        f"seeds={seeds}",
        **{**FAST, "RETRY_TIMES": "0"},
        DOWNLOADER_MIDDLEWARES='{"tests.rawsite.Impatient": 100}',
        FRONTIER_KEEP_ALIVE="True",
    )

    def letters():
        found = cluster.shown("crawl", "dead")["letters"]
        return {letter["url"]: letter["reason"] for letter in found}

    def told():
        return cluster.text_of("a").count("/robots.txt cannot be fetched")

    read = [sites[name] for name in (*RULED, *OPEN)]
    until(lambda: all("/yes" in site.requests for site in read), "the pages")
    until(lambda: told() == len(SHUT), "the others")
    until(lambda: len(letters()) == len(SHUT), "the dead letters")
    reasons, peak = letters(), peak_of(node)
    node.terminate()
    cluster.finish()

    for name in RULED:
        assert "/no" not in sites[name].requests, name
    for name in OPEN:
        assert "/no" in sites[name].requests, name
    for name in SHUT:
        assert sites[name].requests.keys() <= {"/robots.txt"}, name
        assert (
            "robots.txt of its host cannot be fetched" in reasons[sites[name].url("/")]
        )
    assert "503" in reasons[sites["broken"].url("/")]
    assert "metadata address" in reasons[sites["inside"].url("/")]
    assert sites["endless"].pages["/robots.txt"].sent < 50_000_000
    assert peak < 400_000_000
    text = cluster.text_of("a")
    assert (
        "5 requests to 5 hosts were not sent, as their robots.txt could not be" in text
    )
    assert "/robots.txt is longer than 512,000 bytes" in text
    (log,) = cluster.warc_dir.glob("*.crawl.log")
    lines = {line.split()[3]: line.split() for line in log.read_text().splitlines()}
    assert lines[sites["busy"].url("/")][1] == "-61"
    assert lines[absent][1] == "-2"
    assert "lenTrunc" in lines[sites["endless"].url("/robots.txt")][-1]
