"""Exported seen-sets."""

import json
import struct
import zlib

from frontier.cli.output import ExitCode
from frontier.errors import SeenFileBroken, SeenFileMismatch
from frontier.seen.export import BITS, END, ENTRIES, LAYOUT, MAGIC, SeenFile
from tests.hostile.corpus import hostile, hostile_each, refused
from tests.hostile.making import nested

FACTS = {
    "fingerprinter": "scrapy.utils.request.RequestFingerprinter",
    "crawl_id": "x",
    "spider": "site",
    "shape": {},
    "urls": 0,
}


def opening(text=None, version=2, length=None, **facts):
    if text is None:
        text = json.dumps(FACTS | facts)
    data = text.encode()
    size = len(data) if length is None else length
    head = struct.pack(">8sHI", MAGIC, version, size) + data
    return head + struct.pack(">I", zlib.crc32(head))


def block(kind, partition=0, a=0, b=0, payload=b"", length=None):
    size = len(payload) if length is None else length
    head = struct.pack(">BIIII", kind, partition, a, b, size)
    return head + struct.pack(">I", zlib.crc32(head + payload)) + payload


def entries(*steps, count=None):
    plain = b"".join(step.to_bytes(8, "big") for step in steps)
    planes = b"".join(plain[i::8] for i in range(8))
    number = len(steps) if count is None else count
    return block(ENTRIES, 0, number, 0, zlib.compress(planes))


LAST = block(END)
BOMB = zlib.compress(bytes(100 << 20), 9)
BROKEN = {
    "empty": b"",
    "another-file": b"PK\3\4" * 100,
    "only-magic": MAGIC,
    "a-header-of-4-gb": opening(length=2**32 - 1),
    "a-header-of-100000-levels": opening(nested("[", "]", 30_000)),
    "a-header-of-a-list": opening("[]"),
    "a-header-with-unknown-names": opening(evil="1"),
    "a-space-of-nobody": opening(bits=7),
    "a-space-of-text": opening(bits="62", groups="many"),
    "groups-of-10-to-the-30": opening(bits=32, groups=10**30),
    "another-checksum": opening()[:-1] + b"\0",
    "no-end": opening(),
    "more-after-the-end": opening() + LAST + b"x",
    "a-block-of-4-gb": opening() + block(ENTRIES, 0, 1, 0, b"x", 2**32 - 1),
    "a-block-of-nobody": opening() + block(9),
    "a-block-that-is-cut": opening() + entries(1)[:-1],
    "a-bomb-of-entries": opening() + block(ENTRIES, 0, 1, 0, BOMB[:100_000]),
    "a-bomb-of-bits": opening() + block(BITS, 0, 0, 0, BOMB[:100_000]),
    "four-billion-entries": opening() + entries(1, count=2**32 - 1),
    "entries-that-do-not-rise": opening() + entries(5, 0) + LAST,
    "entries-beyond-their-space": opening() + entries(2**63) + LAST,
    "layout-of-a-million-filters": opening() + block(LAYOUT, 0, 10**6, 1) + LAST,
    "partitions-in-no-order": opening()
    + block(LAYOUT, 5, 1, 1)
    + block(LAYOUT, 4, 1, 1),
    "fewer-urls-than-it-says": opening(urls=10) + LAST,
    "urls-of-text": opening(urls="many") + LAST,
}


@hostile_each("export", BROKEN)
def _(given, data):
    path = given.file("x.seen", data)
    with refused(SeenFileBroken, "nothing was imported"):
        found = SeenFile(path)
        found.verified()
    name = f"h{given.unique}"
    words = ["seen", "import", path, "--new", "y", "--namespace", name]
    said = given.command(*words)
    assert said.code == ExitCode.USAGE, said
    assert "nothing was imported" in said.err
    assert not given.redis("KEYS", f"*{name}*")


@hostile("export/another-version")
def _(given):
    with refused(SeenFileMismatch, "version"):
        SeenFile(given.file("x.seen", opening(version=99)))


WHOLE = {
    "a-partition-of-4-billion": opening(urls=0) + block(LAYOUT, 2**32 - 1, 1, 1) + LAST,
    "names-with-escapes": opening(crawl_id="\x1b[31m", spider="\x1b]0;owned\x07")
    + LAST,
    "a-shape-of-a-list": opening(shape=["x"]) + LAST,
    "a-shape-of-words": opening(shape={"partitions": "many"}) + LAST,
    "rules-of-a-list": opening(rules=["x"]) + LAST,
    "another-hash": opening(hash="sha1") + LAST,
    "a-fingerprinter-of-os-system": opening(fingerprinter="os.system") + LAST,
    "bits-far-out": opening(shape={"partitions": "4"})
    + block(LAYOUT, 0, 1, 1)
    + block(BITS, 0, 0, 2**32 - 1, zlib.compress(b"x"))
    + LAST,
}


@hostile_each("export", WHOLE)
def _(given, data):
    path = given.file("x.seen", data)
    name = f"h{given.unique}"
    words = ["seen", "import", path, "--new", "y", "--namespace", name]
    said = given.command(*words)
    assert said.code not in {ExitCode.OK, ExitCode.CRAWL_FAILED}, said
    assert said.err.startswith("frontier: "), said
