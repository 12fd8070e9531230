"""What sites answer: pages of a group are crawled together, each from its own host.

A page is put into the corpus with `page`, and says what must come of it, given what
came of its host::

    @page("answers/a-status-line-of-a-megabyte", {"/": b"HTTP/1.1 200 " + b"x" * 10**6})
    def _(came):
        assert came.codes("/") == [-3]

Each host has its own address of the loopback. A group is one input.
"""

import contextlib
import json
import os
import re
import socket
import sys
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest import mock

from tests.hostile.corpus import hostile

SETTINGS = {
    "AUTOTHROTTLE_ENABLED": False,
    "CONCURRENT_REQUESTS": 64,
    "COOKIES_ENABLED": True,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_MAXSIZE": 4 << 20,
    "DOWNLOAD_TIMEOUT": 20,
    "FRONTIER_PARTITIONS": 64,
    "FRONTIER_WARC_DIR": "warcs",
    "LOG_LEVEL": "INFO",
    "REDIRECT_MAX_TIMES": 5,
    "RETRY_TIMES": 0,
}
ALIVE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<a href=/2>x</a><p>alive"
MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
FAULT = re.compile(
    r"Traceback \(most recent.*\n((?:[ \t].*\n)+)\S.*\n(?!\n(?:The above|During))"
)
OURS = f'"{Path(__file__).parents[2]}/frontier/'
"""In the last lines of a traceback: Scrapy logs those of what it refuses."""
GROUPS = {}


@dataclass
class Page:
    name: str
    answers: dict
    check: object


@dataclass
class Came:
    """What came of one host."""

    origin: str
    asked: list = field(default_factory=list)
    """Paths, in the order in which they were asked for."""
    heads: list = field(default_factory=list)
    """What was sent with each, in lower case."""
    lines: list = field(default_factory=list)
    """Of the crawl log: URL, code, size and notes."""
    items: list = field(default_factory=list)
    records: list = field(default_factory=list)
    """Type, URL, headers and length of each record of a response."""
    log: str = ""
    """Of the whole node."""

    def codes(self, path):
        """The codes in the crawl log of all attempts at *path*."""
        return [line[1] for line in self.lines if line[0] == self.origin + path]

    def pages(self):
        """How many requests there were but those for robots.txt."""
        return sum(path != "/robots.txt" for path in self.asked)

    def record(self, path):
        """The one record of *path*: its WARC headers and the length of its body."""
        found = [r for r in self.records if r[1] == self.origin + path]
        assert len(found) == 1, f"{len(found)} records"
        return found[0][2], found[0][3]


def page(name, answers, **settings):
    """Put a page into its group; its function asserts what came of it.

    *answers* are bytes by path, or functions of the connection; bytes alone are
    those of ``/``. In bytes, ``{origin}`` is the page's own.
    """
    group, _, _ = name.partition("/")
    if not isinstance(answers, dict):
        answers = {"/": answers}

    def put(check):
        if group not in GROUPS:
            GROUPS[group] = {}
            hostile(f"{group}/all", cpu=60)(partial(_run, group))
        assert name not in GROUPS[group], f"{name} is there twice"
        GROUPS[group][name] = Page(name, answers, check)
        return check

    return put


def html(body, *headers, kind="text/html"):
    body = body if isinstance(body, bytes) else body.encode()
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: " + kind.encode(), *headers]
    lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def moved(target, status=302):
    return b"HTTP/1.1 %d Moved\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % (
        status,
        target if isinstance(target, bytes) else target.encode(),
    )


def pieces(*given, times=1, pause=0.0, then=b""):
    """A function that sends pieces, some times over, until nobody listens."""

    def answer(connection):
        for _ in range(times):
            for piece in given:
                connection.sendall(piece)
                if pause and _closed(connection, pause):
                    return
        connection.sendall(then)

    return answer


def _closed(connection, seconds):
    connection.settimeout(seconds)
    try:
        return not connection.recv(1)
    except TimeoutError:
        return False
    finally:
        connection.settimeout(30)


class Site:
    """A process that answers on all addresses of the loopback at one port."""

    def __init__(self, answers, log):
        self._answers = answers
        self._listener = socket.create_server(("0.0.0.0", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.pid = os.fork()
        if not self.pid:
            threading.stack_size(1 << 18)
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(
                    target=self._serve, args=(connection,), daemon=True
                ).start()
        self._listener.close()

    def _serve(self, connection):
        connection.settimeout(30)
        with contextlib.suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head:
                data = connection.recv(65536)
                if not data:
                    return
                head += data
            host = connection.getsockname()[0]
            path = head.split(b" ")[1].decode("latin-1")
            line = json.dumps([host, path, head.decode("latin-1").lower()])
            os.write(self._log, line.encode() + b"\n")
            answers = self._answers.get(host, {})
            answer = answers.get(path, answers.get("*", MISSING))
            if callable(answer):
                answer(connection)
                return
            origin = f"http://{host}:{self.port}".encode()
            connection.sendall(answer.replace(b"{origin}", origin))


def _run(group, given):
    chosen = GROUPS[group].values()
    hosts = {f"127.1.{n // 200}.{n % 200 + 1}": p for n, p in enumerate(chosen)}
    answers = {host: each.answers for host, each in hosts.items()}
    answers["127.2.0.1"] = {"/": ALIVE, "/2": ALIVE.replace(b"/2", b"/3"), "/3": ALIVE}
    log = given.directory / "asked.jsonl"
    site = Site(answers, log)
    seeds = [f"http://{host}:{site.port}/" for host in answers]
    given.file("seeds.txt", "\n".join(seeds))
    came = crawl(given, site, answers, log)
    alive = came["127.2.0.1"]
    assert sorted(alive.asked) == ["/", "/2", "/3", "/robots.txt"], (
        alive.asked,
        alive.lines,
    )
    wrong = []
    for host, each in hosts.items():
        try:
            each.check(came[host])
        except AssertionError as error:
            seen = came[host]
            told = f"{seen.asked[:20]} {seen.lines[:20]} {seen.items[:5]}"
            line = error.__traceback__.tb_next.tb_lineno
            wrong.append(f"{each.name}, line {line}: {error}: {told[:1500]}")
    assert not wrong, "\n".join(wrong)


def crawl(given, site, hosts, log):
    """Crawl with the spider ``site``; return what came of each of *hosts*."""
    from scrapy.cmdline import execute

    settings = {
        **SETTINGS,
        "FRONTIER_COLLECTION": given.unique,
        "FRONTIER_NAMESPACE": f"h{given.unique}",
        "REDIS_URL": given.url,
    }
    given.file("scrapy.cfg", "[settings]\ndefault = settings.local\n")
    words = ["scrapy", "crawl", "site", "-a", "seeds=seeds.txt", "-O", "items.jsonl"]
    words += [f"-s{name}={value}" for name, value in settings.items()]
    node_log = given.directory / "node.log"
    with node_log.open("w") as file, contextlib.ExitStack() as stack:
        for name in ("stdout", "stderr"):
            stack.enter_context(mock.patch.object(sys, name, file))
        try:
            execute(words)
        except SystemExit as end:
            code = end.code
    text = node_log.read_text("utf-8", "replace")
    assert not code, text[-3000:]
    assert "'finish_reason': 'finished'" in text, text[-3000:]
    found = {host: Came(f"http://{host}:{site.port}", log=text) for host in hosts}
    for line in log.read_text().splitlines():
        host, path, head = json.loads(line)
        found[host].asked.append(path)
        found[host].heads.append(head)
    _read_logs(given, found)
    _read_records(given, found)
    items = given.directory / "items.jsonl"
    for line in items.read_text().splitlines() if items.exists() else ():
        item = json.loads(line)
        found[_host(item["url"])].items.append(item)
    faults = [fault for fault in FAULT.findall(text) if OURS in fault[-300:]]
    assert not faults, faults[0][-3000:]
    return found


def _host(url):
    return re.match(r"[a-z]+://([0-9.]*)", url)[1]


def _read_logs(given, found):
    for path in (given.directory / "warcs").glob("*.crawl.log"):
        for line in path.read_text("ascii").splitlines():
            words = line.split(" ")
            words = [word for word in words if word]
            if words[3].startswith("frontier:"):  # no attempt
                continue
            came = found.get(_host(words[3]))
            if came is not None:
                size = -1 if words[2] == "-" else int(words[2])
                came.lines.append((words[3], int(words[1]), size, words[11]))


def _require_readable(path):
    """Others' readers, as they are by default, come to the end of *path*."""
    from fastwarc.warc import ArchiveIterator
    from warcio.archiveiterator import WARCIterator

    with path.open("rb") as file:
        found = [each.record_id for each in ArchiveIterator(file)]
    with path.open("rb") as file:
        headers = [each.rec_headers for each in WARCIterator(file)]
    assert found == [each.get_header("WARC-Record-ID") for each in headers]


def _read_records(given, found):
    from fastwarc.warc import ArchiveIterator, WarcRecordType

    kinds = WarcRecordType.response | WarcRecordType.revisit
    kinds |= WarcRecordType.resource
    for path in (given.directory / "warcs").glob("*.warc.gz"):
        _require_readable(path)
        with path.open("rb") as file:
            for record in ArchiveIterator(file, kinds, parse_http=False):
                url = record.headers.get("WARC-Target-URI")
                came = found.get(_host(url))
                if came is not None:
                    headers = dict(record.headers)
                    kind = headers["WARC-Type"]
                    came.records.append((kind, url, headers, record.content_length))
