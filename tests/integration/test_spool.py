"""Large bodies, and the memory of the node that fetches them."""

import gzip
import hashlib
import json
import random
import resource
import threading
from pathlib import Path

import pytest
from conftest import until
from warcio.archiveiterator import ArchiveIterator

from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: video/x\r\n"
BLOCK = random.Random(30).randbytes(1 << 20)


SPIDERS = """
import scrapy


class Large(scrapy.Spider):
    name = "large"
    custom_settings = {
        "ROBOTSTXT_OBEY": False,
        "HTTPCACHE_ENABLED": True,
        "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1},
    }

    async def start(self):
        accepts = {"frontier_archived_only": True}
        for path, meta in {
            "/small": {},
            "/needs": {},
            "/short": {"download_maxsize": 500_000, **accepts},
            "/large": accepts,
            "/gzip": accepts,
            "/excluded": accepts,
            "/unarchived": {"archive": False},
            "/page": {},
            "/first": accepts,
        }.items():
            url = self.at + path
            yield scrapy.Request(url, self.parse, errback=self.failed, meta=meta)

    def parse(self, response):
        path = response.url[len(self.at):]
        if path == "/first":
            self.logger.info("the first has come")
        yield {
            "url": path,
            "size": len(response.body),
            "only": "frontier-body-archived-only" in response.flags,
            "file_urls": [self.at + "/file"] if path == "/page" else [],
        }

    def failed(self, failure):
        path = failure.request.url[len(self.at):]
        yield {"url": path, "error": type(failure.value).__name__}
"""


def memory(process, name):
    """Bytes of memory that *process* has, by their *name* in `/proc`; 0 if gone."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return int(found[0]) << 10 if found else 0


@pytest.mark.parametrize("blocks", [200, pytest.param(4_800, marks=pytest.mark.long)])
def test_a_body_above_a_size_is_archived_whole_and_never_in_memory(
    cluster, tmp_path, blocks
):
    sent = hashlib.sha256()

    def large(connection):
        assert released.wait(240)
        size = len(BLOCK) * blocks
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % size)
        for number in range(blocks):
            block = number.to_bytes(8, "big") + BLOCK[8:]
            sent.update(block)
            connection.sendall(block)

    released = threading.Event()
    packed = gzip.compress(bytes(3_000_000) + BLOCK)
    packed += bytes(1_200_000 - len(packed))
    html = "Content-Type: text/html"
    two = answer(BLOCK * 2, html)
    zipped = answer(packed, html, "Content-Encoding: gzip")
    pages = {
        **dict.fromkeys(["/needs", "/excluded", "/unarchived", "/file", "/first"], two),
        **dict.fromkeys(["/small", "/page"], answer("<p>small", html)),
        "/short": answer(BLOCK[:700_000], html),
        "/large": large,
        "/gzip": zipped,
    }
    site, items = RawSite(pages), tmp_path / "items.jsonl"
    node = cluster.start(
        "n1",
        *("-a", f"at={site.origin}", "-o", str(items)),
        cwd=scrapy_project(tmp_path / "project", SPIDERS),
        spider="large",
        DOWNLOAD_MAXSIZE="4000000",
        DOWNLOAD_TIMEOUT="3600",
        FILES_STORE=str(tmp_path / "files"),
        FRONTIER_BUSY_MAX="0",
        FRONTIER_WARC_EXCLUDE="url:/excluded",
        FRONTIER_WARC_MAX_BYTES="100000000000",
        FRONTIER_WARC_ONLY_BYTES="1000000",
        FRONTIER_WARC_SPOOL_BYTES="1000000",
    )
    try:
        until(lambda: "the first has come" in cluster.text_of("n1"), "a page")
        before = memory(node, "VmHWM")
        room = memory(node, "VmData") + 96_000_000
        resource.prlimit(node.pid, resource.RLIMIT_DATA, (room, room))
        released.set()
        most = before
        while node.poll() is None:
            most = max(most, memory(node, "VmHWM"))
        assert node.returncode == 0, cluster.text_of("n1")[-3000:]
    finally:
        released.set()
        cluster.close()
        site.close()

    found = {}
    for line in items.read_text().splitlines():
        item = json.loads(line)
        found[item["url"]] = item.get("error") or (item["size"], item["only"])
    assert found == {
        "/small": (8, False),
        "/needs": "BodyArchivedOnly",
        "/short": (0, True),
        "/large": (0, True),
        "/gzip": (0, True),
        "/excluded": "BodyArchivedOnly",
        "/unarchived": (len(BLOCK) * 2, False),
        "/page": (8, False),
        "/first": (0, True),
    }
    text = cluster.text_of("n1")
    for stat in ("only': 7", "only_refused': 3"):
        assert f"'frontier/archive/{stat}" in text, stat
    assert "'file_count'" not in text
    assert "'httpcache/store': 3" in text
    bodies = {}
    for path in cluster.warc_dir.glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                digest = hashlib.sha256()
                while part := record.raw_stream.read(1 << 20):
                    digest.update(part)
                if record.rec_type == "response":
                    url = record.rec_headers["WARC-Target-URI"][len(site.origin) :]
                    assert record.rec_headers.get_header("WARC-Truncated") is None
                    payload = record.rec_headers["WARC-Payload-Digest"]
                    assert payload == f"sha256:{digest.hexdigest()}"
                    bodies[url] = digest.hexdigest()
    assert bodies["/large"] == sent.hexdigest()
    assert bodies["/gzip"] == hashlib.sha256(packed).hexdigest()
    assert most - before < 150_000_000, f"{most - before:,}"
    print(f"memory: {before:,} at first, {most:,} at most; limit of data {room:,}")
