"""Exchanges, and an index, for the tests of the archive."""

import gzip
import io
import threading
import zipfile
import zlib

from frontier.dedupe.digest import digest_of
from frontier.errors import StoreUnavailable
from frontier.model import Exchange, Original
from frontier.warc.file_rotation import WarcWriter

NOON = 1_767_225_600.123  # 2026-01-01T00:00:00.123Z


def an_exchange(number=0, body=b"<p>hello</p>", **changes):
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(body)
    facts = {
        "url": f"http://example.com/{number}",
        "started": NOON + number,
        "request_head": b"GET /%d HTTP/1.1\r\nHost: example.com\r\n\r\n" % number,
        "request_body": b"",
        "response_head": head,
        "response_body": body,
        "status": 200,
        "ip": "192.0.2.7",
    }
    return Exchange(**{**facts, **changes})


def written(config, exchanges, known=None, clock=lambda: NOON):
    """The WARC file of *exchanges*; revisits of payloads that are *known*, if given."""
    writer = WarcWriter(config, clock)
    for exchange in exchanges:
        digest = digest_of(exchange.response_body)
        stored = writer.append(exchange, digest, (known or {}).get(digest))
        if known is not None:
            facts = (exchange.url, stored.date, config.crawl_id, stored.length)
            known.setdefault(digest, Original(*facts))
    writer.close()
    return config.directory / stored.file


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def members(data):
    """Return the gzip members of *data*, as (offset, length, content)."""
    found = []
    start = 0
    while start < len(data):
        inflate = zlib.decompressobj(31)
        content = inflate.decompress(data[start:])
        assert inflate.eof, "a member is cut off"
        length = len(data) - start - len(inflate.unused_data)
        assert gzip.decompress(data[start : start + length]) == content
        found.append((start, length, content))
        start += length
    return found


def change_members(path, change):
    """Have *change*, given its number and its content, change each record of *path*."""
    found = [content for _, _, content in members(path.read_bytes())]
    packed = [gzip.compress(change(*each)) for each in enumerate(found)]
    path.write_bytes(b"".join(packed))
    return packed


def inside(wacz):
    """All that a WACZ has, unpacked, by name; it may be bytes."""
    file = io.BytesIO(wacz) if isinstance(wacz, bytes) else wacz
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def warc_headers(content):
    head, _, _ = content.partition(b"\r\n\r\n")
    return dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])


class DictIndex:
    """An `Index` in memory that keeps a log of what it was asked.

    It fails with `StoreUnavailable` while `down` is set, and sets `asked_in_vain`
    when it did. On `add` it checks that the responses can be read from disk.
    """

    def __init__(self, directory, crawl_id="crawl"):
        self.originals = {}
        self.log = []
        self.down = threading.Event()
        self.asked_in_vain = threading.Event()
        self._directory = directory
        self._crawl_id = crawl_id

    def lookup(self, digests):
        self._fail_if_down()
        self.log.append(("lookup", list(digests)))
        return {d: self.originals[d] for d in digests if d in self.originals}

    def add(self, entries):
        self._fail_if_down()
        self.log.append(("add", [entry.digest_hex for entry in entries]))
        on_disk = dict(self._responses_on_disk())
        for entry in entries:
            url, date, length = on_disk[entry.digest_hex]
            assert (url, date, length) == (entry.url, entry.date, entry.length)
            original = Original(entry.url, entry.date, self._crawl_id, entry.length)
            self.originals.setdefault(entry.digest_hex, original)

    def _fail_if_down(self):
        if self.down.is_set():
            self.asked_in_vain.set()
            raise StoreUnavailable("localhost:6379", "it is down")

    def _responses_on_disk(self):
        for path in self._directory.glob("*.warc.gz*"):
            for _, length, content in reversed(members(path.read_bytes())):
                headers = warc_headers(content)
                if headers["WARC-Type"] == "response":
                    block = content.partition(b"\r\n\r\n")[2]
                    assert len(block) - 4 == int(headers["Content-Length"])
                    digest = headers["WARC-Payload-Digest"].removeprefix("sha256:")
                    where = headers["WARC-Target-URI"], headers["WARC-Date"], length
                    yield digest, where
