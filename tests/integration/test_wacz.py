"""The WARC and WACZ files of two crawls, with a change of the site in between.

The first crawl was deleted before the second began.

pywb needs packages of its own, so it lives in an environment of its own.
"""

import contextlib
import hashlib
import http.client
import io
import json
import socket
import subprocess
import sys
import time
import urllib.parse
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import HELD, Cluster, until
from fastwarc.cli import main as fastwarc
from warcio.archiveiterator import ArchiveIterator

from frontier.cdx.lines import parse
from frontier.dedupe.digest import digest_of
from frontier.testing.oracle import RequestLog
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from frontier.wacz.check import check
from frontier.wacz.create import create
from frontier.wacz.layout import index_lines
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests import foreign
from tests.topologies import free_ports
from tests.warc.judges import records_in
from tests.warc.samples import an_exchange

SCRIPTS = Path(sys.executable).parent
SITE = {"hosts": 2, "calendar_months": 12, "slow_seconds": 0.2}


@dataclass
class Capture:
    """A response or revisit in a WACZ."""

    url: str
    date: str
    kind: str
    id: str
    refers_to_id: str
    digest: str
    refers_to: tuple
    status: int
    body: bytes

    @property
    def at(self):
        return self.url, self.date


def captures(path):
    """What the WACZ at *path* stores, by URL and date."""
    found = {}
    with zipfile.ZipFile(path) as wacz:
        for name in wacz.namelist():
            if not name.startswith("archive/"):
                continue
            for record in ArchiveIterator(io.BytesIO(wacz.read(name))):
                if record.rec_type not in {"response", "revisit"}:
                    continue
                get = record.rec_headers.get_header
                one = Capture(
                    get("WARC-Target-URI"),
                    get("WARC-Date"),
                    record.rec_type,
                    get("WARC-Record-ID"),
                    get("WARC-Refers-To"),
                    get("WARC-Payload-Digest"),
                    (get("WARC-Refers-To-Target-URI"), get("WARC-Refers-To-Date")),
                    int(record.http_headers.get_statuscode()),
                    record.raw_stream.read(),
                )
                found[one.at] = one
    return found


@dataclass
class Crawled:
    """Two crawls, and a WACZ that the second does not need."""

    cluster: Cluster
    first: Path
    second: Path
    stranger: Path


@pytest.fixture(scope="module")
def crawled(tmp_path_factory, chosen):
    directory = tmp_path_factory.mktemp("wacz")
    cluster = Cluster(directory, chosen())
    waczs, log = directory / "waczs", directory / "requests.jsonl"

    def start(node):
        words = ("-a", f"seeds={seeds}", "-o", str(directory / f"{node}.jsonl"))
        cluster.start(node, *words, FRONTIER_WACZ_DIR=waczs)

    with contextlib.closing(cluster):
        with SiteServer(Site(urls=130, **SITE), log=log, delay=HELD) as server:
            seeds = ",".join(server.seeds)
            about = server.site.resource(0, "GET", "/about", b"").body
            for node in ("node-1", "node-2"):
                start(node)
            cluster.join()
            server.delay = 0
            cluster.finish()
        cluster.do("crawl", "delete", "--crawl", "site-1", "--yes")
        # pywb knows captures of a URL by their second.
        ended = int(time.time())
        until(lambda: time.time() > ended + 1, "another second")
        # It holds a payload that the second crawl needs, but of another URL.
        writer = WarcWriter(WarcConfig(directory / "x", "x-1", "n"), lambda: 1.7e9)
        writer.append(an_exchange(7, about), digest_of(about))
        writer.close()
        create(waczs / "a.wacz", list((directory / "x").glob("*.warc.gz")))
        port = int(server.hosts[0].rpartition(":")[2])
        with SiteServer(Site(urls=150, **SITE), log=log, port=port) as server:
            assert ",".join(server.seeds) == seeds
            start("node-3")
            cluster.finish("node-3")
        yield Crawled(
            cluster, waczs / "site-1.wacz", waczs / "site-2.wacz", waczs / "a.wacz"
        )


def test_the_last_node_makes_one_of_both_nodes_files(crawled):
    warcs = sorted(crawled.cluster.warc_dir.glob("site-1-*.warc.gz"))
    with zipfile.ZipFile(crawled.first) as archive:
        indexed = sorted(parse(raw).url for raw in index_lines(archive))
        names = sorted(n for n in archive.namelist() if n.startswith("archive/"))

    assert names == [f"archive/{each.name}" for each in warcs]
    assert indexed == sorted(one.url for one in captures(crawled.first).values())
    # Nothing was inflated for it: each file had its index.
    assert "is read:" not in crawled.cluster.text_of("node-1")


def test_wacz_and_warc_files_pass_our_check_and_foreign_validators(crawled, tmp_path):
    assert check(crawled.first) == []
    assert check(crawled.second, [crawled.first, crawled.stranger]) == []
    judges = [
        subprocess.Popen(
            [SCRIPTS / "wacz", "validate", "-f", path],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for path in (crawled.first, crawled.second)
    ]
    warcs = sorted(crawled.cluster.warc_dir.glob("*.warc.gz"))
    subprocess.run([SCRIPTS / "warcio", "check", *warcs], check=True)
    for path in warcs:
        assert not fastwarc(["check", "--quiet", str(path)], standalone_mode=False)
    for judge in judges:
        said, _ = judge.communicate()
        assert judge.returncode == 0, said
        assert "Validation succeeded" in said


def test_the_second_requires_the_first_and_nothing_else(crawled):
    first, second = captures(crawled.first), captures(crawled.second)
    with zipfile.ZipFile(crawled.second) as archive:
        package = json.loads(archive.read("datapackage.json"))
    data = crawled.first.read_bytes()

    assert package["relation"]["requires"] == [
        {
            "filename": "site-1.wacz",
            "hash": hashlib.sha256(data).hexdigest(),
            "size": len(data),
        }
    ]
    needed = 0
    for one in second.values():
        if one.kind == "revisit":
            original = first.get(one.refers_to) or second[one.refers_to]
            assert (original.kind, original.digest) == ("response", one.digest)
            assert original.id == one.refers_to_id
            needed += one.refers_to in first
    assert needed > 50
    changed = {u for u, _ in first} & {
        one.url for one in second.values() if one.kind == "response"
    }
    assert any(url.endswith("/hub") for url in changed)
    alone = check(crawled.second, [crawled.stranger])
    assert alone == []  # what is not here is believed to hold it
    with zipfile.ZipFile(crawled.first) as archive:
        assert "relation" not in json.loads(archive.read("datapackage.json"))


def test_every_exchange_has_its_request_and_every_item_names_its_record(crawled):
    warcs, asked = crawled.cluster.warc_dir, {"request": [], "response": []}
    for headers, _ in records_in(warcs.glob("site-*.warc.gz")):
        kind = headers["WARC-Type"].replace("revisit", "response")
        asked.get(kind, []).append(headers.get("WARC-Target-URI"))
    log = RequestLog.read(crawled.cluster.directory / "requests.jsonl")
    for uris in asked.values():
        assert sorted(uris) == sorted(entry.url for entry in log.entries)

    kinds, files = set(), crawled.cluster.directory.glob("node-*.jsonl")
    lines = [line for file in files for line in file.read_text().splitlines()]
    for item in map(json.loads, lines):
        stamp = item["warc"]
        kinds.add(stamp["type"])
        with (warcs / stamp["file"]).open("rb") as stream:
            stream.seek(stamp["offset"])
            get = next(iter(ArchiveIterator(stream))).rec_headers.get_header
        assert get("WARC-Record-ID") == stamp["record_id"]
        assert get("WARC-Type") == stamp["type"]
        assert get("WARC-Target-URI") == item["url"]
        assert get("WARC-Payload-Digest") == stamp["payload_digest"]
    assert kinds == {"response", "revisit"}


@contextlib.contextmanager
def replay(directory, *waczs):
    """A pywb with the collection ``c`` of *waczs*; yields a way to ask it."""
    directory.mkdir()
    tools = foreign.python("pywb==2.10.0")
    manager = tools / "wb-manager"
    subprocess.run(
        [manager, "init", "c"], cwd=directory, check=True, capture_output=True
    )
    for path in waczs:
        command = [manager, "add", "--unpack-wacz", "c", path]
        subprocess.run(command, cwd=directory, check=True, capture_output=True)
    (port,) = free_ports(1)
    wayback = subprocess.Popen(
        [tools / "wayback", "-b", "127.0.0.1", "-p", str(port)],
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_up():
        assert wayback.poll() is None, "pywb has ended"
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        return False

    def ask(one):
        return ask_of(one.url, at="".join(filter(str.isdigit, one.date))[:14])

    def ask_of(url, method="GET", headers=None, body=None, at="2"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with contextlib.closing(connection):
            url = urllib.parse.quote(url, safe="%/:=&?~#+!$,;'@()*[]")
            accepted = {"Accept-Encoding": "gzip, deflate, br", **(headers or {})}
            connection.request(method, f"/c/{at}id_/{url}", body, accepted)
            answer = connection.getresponse()
            return answer.status, answer.read()

    ask.of = ask_of
    ask.cdx = f"http://127.0.0.1:{port}/c/cdx"
    try:
        until(is_up, "pywb")
        yield ask
    finally:
        wayback.kill()
        wayback.wait()


def as_stored(one, *crawls):
    """Status and body of a capture, its payload taken from where it refers to."""
    if one.kind == "response":
        return one.status, one.body
    (original,) = (c[one.refers_to] for c in crawls if one.refers_to in c)
    return one.status, original.body


@pytest.mark.compat
def test_pywb_replays_every_capture_of_both_byte_for_byte(crawled, tmp_path):
    first, second = captures(crawled.first), captures(crawled.second)
    both = [*first.values(), *second.values()]
    with replay(tmp_path / "both", crawled.first, crawled.second) as ask:
        wrong = [one for one in both if ask(one) != as_stored(one, first, second)]
        assert wrong == []
    with replay(tmp_path / "alone", crawled.first) as ask:
        wrong = [one.at for one in first.values() if ask(one) != as_stored(one, first)]
    assert wrong == []
