"""Two nodes crawl four sites, each of which has something that once stopped a crawl.

What is good of each is fetched, both nodes live, and what was refused is listed.
"""

import errno
import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = 20
HOSTS = {
    name: f"127.0.0.{30 + n}"
    for n, name in enumerate(["regex", "robots", "links", "away"])
}
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
STALL_S = 1.0
PEAK_MB = 400
LINKS = 1_000_000
RULES_MB = 1024
OFFENDERS = [
    r"WARNING: .*FRONTIER_TRAP_PAGE_LINKS.*/many",
    r"WARNING: .*/robots.txt is longer than 512,000 bytes",
    r"WARNING: .* not sent: .*(scope|addresses)",
]
"""What the logs have to say of each, with the setting or the reason."""
METADATA = "http://169.254.169.254/latest/meta-data/"


def html(body):
    return HTML + b"Content-Length: %d\r\n\r\n" % len(body) + body


def page(number, *more):
    links = "".join(f'<a href="{link}">x</a>' for link in [f"/p{number + 1}", *more])
    return html(f"<title>{number}</title>{links if number < PAGES else ''}".encode())


def style():
    return html(b"<style>" + b"url(" * 50_000 + b"</style><a href=/p2>x</a>")


def srcset():
    return html(b'<img srcset="' + b" " * 200_000 + b'"><a href=/p3>x</a>')


def many():
    yield HTML + b"\r\n"
    for begin in range(0, LINKS, 10_000):
        yield "".join(
            f"<a href=/l{n}>x</a>" for n in range(begin, begin + 10_000)
        ).encode()


def rules():
    """A gigabyte of them; the first disallows a page."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    yield b"User-agent: *\nDisallow: /secret\n"
    block = b"".join(b"Disallow: /no/%06d\n" % n for n in range(50_000))
    for _ in range(RULES_MB * 2**20 // len(block)):
        yield block


def answer(host, path):
    """The bytes, in pieces, that *host* sends for *path*."""
    number = int(path[2:]) if path.startswith("/p") and path[2:].isdigit() else 0
    if path == "/robots.txt":
        return (
            rules()
            if host == "robots"
            else [b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"]
        )
    if path == "/":
        more = {
            "regex": ["/css", "/srcset"],
            "robots": ["/secret"],
            "links": ["/many"],
            "away": ["/away"],
        }[host]
        return [page(0, *more)]
    if (host, path) == ("regex", "/css"):
        return [style()]
    if (host, path) == ("regex", "/srcset"):
        return [srcset()]
    if (host, path) == ("links", "/many"):
        return many()
    if (host, path) == ("away", "/away"):
        head = (
            f"HTTP/1.1 302 Found\r\nLocation: {METADATA}\r\nContent-Length: 0\r\n\r\n"
        )
        return [head.encode()]
    if number:
        return [page(number)]
    if path.startswith("/l"):
        return [html(b"leaf")]
    return [b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"]


def listen():
    """A socket on each host, all at one port, which nobody has taken meanwhile."""
    while True:
        found, port = [], 0
        try:
            for address in HOSTS.values():
                found.append(socket.create_server((address, port)))
                port = found[0].getsockname()[1]
        except OSError as error:
            for each in found:
                each.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return found


class Sites:
    """The four, with what was asked of each."""

    def __init__(self):
        self.asked = {name: [] for name in HOSTS}
        self._listening = listen()
        self.port = self._listening[0].getsockname()[1]
        for name, listening in zip(HOSTS, self._listening, strict=True):
            threading.Thread(
                target=self._accept, args=(name, listening), daemon=True
            ).start()

    @property
    def seeds(self):
        return [f"http://{address}:{self.port}/" for address in HOSTS.values()]

    def close(self):
        for listening in self._listening:
            listening.close()

    def _accept(self, name, listening):
        try:
            while True:
                connection, _ = listening.accept()
                threading.Thread(
                    target=self._serve, args=(name, connection), daemon=True
                ).start()
        except OSError:
            return

    def _serve(self, name, connection):
        try:
            with connection:
                received = b""
                while b"\r\n\r\n" not in received:
                    more = connection.recv(65536)
                    if not more:
                        return
                    received += more
                path = received.split(b" ")[1].decode()
                self.asked[name].append(path)
                for piece in answer(name, path):
                    connection.sendall(piece)
        except OSError:
            return


@pytest.fixture
def sites():
    made = Sites()
    yield made
    made.close()


@pytest.mark.chaos
def test_two_nodes_crawl_all_that_is_good_of_hostile_sites(sites, tmp_path):
    figures = tmp_path / "figures"
    figures.mkdir()
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(sites.seeds))
    given = {
        "EXTENSIONS": json.dumps({"watched.Watched": 1}),
        "DOWNLOAD_DELAY": "0",
    }
    options = [word for name in given for word in ("-s", f"{name}={given[name]}")]
    words = ["crawl", "run", "--seeds", str(seeds), "--nodes", "2", *options]
    run = subprocess.run(
        [sys.executable, "-m", "frontier", *words],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}",
            "WATCHED": str(figures),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    print(run.stdout, run.stderr)  # for who looks at a failure, or runs it with -s
    assert run.returncode == 0
    good = {"/", *(f"/p{number}" for number in range(1, PAGES + 1))}
    for name, asked in sites.asked.items():
        assert good <= set(asked), name
        pages = [path for path in asked if path != "/robots.txt"]  # that, each node
        assert len(pages) == len(set(pages)), name
    assert "/secret" not in sites.asked["robots"]
    used = [json.loads(path.read_text()) for path in figures.iterdir()]
    print(used)
    assert len(used) == 2, "a node did not end by itself"
    assert max(figure["stall_s"] for figure in used) <= STALL_S
    assert max(figure["peak_mb"] for figure in used) <= PEAK_MB
    logs = "".join(log.read_text() for log in tmp_path.glob(".frontier/logs/*.log"))
    for offender in OFFENDERS:
        assert re.search(offender, logs), offender
    text = " ".join(run.stdout.split())
    assert re.search("580,[0-9]{3} over FRONTIER_TRAP_PAGE_LINKS", text)
    assert "only its first 12,800,000 bytes are read for links" in text
