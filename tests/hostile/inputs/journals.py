"""Journals, and the command that rebuilds a crawl from them."""

import re
import zlib
from base64 import b64encode

import msgpack

from frontier.cli.output import ExitCode
from frontier.cluster.shared_settings import crawl_settings
from frontier.node.journal.entries import Bad, Header, Pushed, frame, read
from frontier.queue.item import encode
from frontier.settings.config import Config
from frontier.urls.fingerprint import LEAST_MARK
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import MSGPACK

SHAPE = crawl_settings(Config(partitions=4))
NAME = "x-20260101000000000-00001-n.journal"
BORN = "0123456789abcdef"
HEAD = frame(Header("frontier", "x", "site", "n", {}, BORN))
GOOD = frame(Pushed(0, "t", LEAST_MARK, "0:a", b"0\0" + b"item"))


def framed(payload):
    return b64encode(zlib.crc32(payload).to_bytes(4) + payload) + b"\n"


def entry(*values):
    return framed(msgpack.packb(values))


SKIPPED = {  # bytes between two good entries, which cost themselves only
    "zeros": bytes(10_000) + b"\n",
    "text": b"not a journal at all\n" * 100,
    "a-line-of-20-mb": b"A" * (20 << 20) + b"\n",
    "a-line-that-is-cut": GOOD[:-6] + b"\n",
    "another-checksum": b64encode(bytes(8)) + b"\n",
    **{name: framed(data) for name, data in MSGPACK.items()},
    **{
        f"{name}-in-an-entry": framed(b"\x92\xa1p" + data)
        for name, data in MSGPACK.items()
    },
    "a-partition-below-zero": entry("p", -1, "t", LEAST_MARK, "", b""),
    "a-partition-of-true": entry("p", True, "t", LEAST_MARK, "0:a", b"item"),
    "a-mark-that-is-none": entry("p", 0, "t", 7, "0:a", b"item"),
    "a-mark-of-a-fraction": entry("p", 0, "t", 1.5, "0:a", b"item"),
    "a-queue-with-a-brace": entry("p", 0, "t", LEAST_MARK, "{x}:lease", b"item"),
    "a-queue-of-2-mb": entry("p", 0, "t", LEAST_MARK, "0:" + "a" * (2 << 20), b"item"),
    "a-mode-of-a-list": entry("p", 0, ["t"], LEAST_MARK, "0:a", b"i"),
    "a-push-of-a-number-below-zero": entry("p", 0, "t", LEAST_MARK, "0:a", b"item", -1),
    "a-push-of-a-number-of-words": entry("p", 0, "t", LEAST_MARK, "0:a", b"item", "7"),
    "a-header-born-of-a-list": entry(
        "header 3", "frontier", "x", "site", "n", {}, ["p"]
    ),
    "a-kind-of-nobody": entry("z", 1),
    "an-entry-that-is-empty": entry(),
    "an-entry-of-a-number": framed(msgpack.packb(7)),
    "text-that-is-not-utf-8": framed(b"\x96\xa1p\0\xa1\xff\0\xa10\xc4\x01i"),
}


@hostile_each("journal", SKIPPED)
def _(given, odd):
    path = given.file(NAME, HEAD + GOOD + odd + GOOD)
    found = list(read(path))
    assert isinstance(found[0], Header)
    assert sum(isinstance(each, Pushed) for each in found) == 2
    assert sum(each.length for each in found if isinstance(each, Bad)) == len(odd)


def item(url="http://a.example/"):
    return b"0" + encode({"url": url})


@hostile("journal/rebuild-skips-what-is-no-entry")
def _(given):
    name = f"h{given.unique}"
    head = frame(Header(name, "x", "site", "n", SHAPE, BORN))
    good = frame(Pushed(0, "t", LEAST_MARK, "0:a.example", item()))
    path = given.file(f"j/{NAME}", head + b"".join(SKIPPED.values()) + good)
    words = ["crawl", "rebuild", "--crawl", "x", "--journal", path.parent]
    said = given.command(*words, "--namespace", name)
    assert said.err.count("skipped ") >= 3, said
    assert re.search(r"^pushed +1 *$", said.out, re.MULTILINE), said
    assert given.redis("LLEN", f"{{{name}:x:0}}ready:0:a.example") in (0, 1)


SHAPES = {
    "nothing": {},
    "partitions-of-words": SHAPE | {"FRONTIER_PARTITIONS": "many"},
    "partitions-of-10-to-the-9": SHAPE | {"FRONTIER_PARTITIONS": 10**9},
    "partitions-of-a-list": SHAPE | {"FRONTIER_PARTITIONS": [4]},
    "a-capacity-of-10-to-the-18": SHAPE | {"FRONTIER_BLOOM_CAPACITY": 10**18},
    "tiers-of-nobody": SHAPE | {"FRONTIER_SEEN_TIERS": ["evil"]},
    "a-number-for-a-name": SHAPE | {7: "4"},
}


@hostile_each("journal", {f"a-header-with-{n}": (s,) for n, s in SHAPES.items()})
def _(given, shape):
    name = f"h{given.unique}"
    payload = msgpack.packb(["header 3", name, "x", "site", "n", shape, BORN])
    path = given.file(f"j/{NAME}", framed(payload) + GOOD)
    words = ["crawl", "rebuild", "--crawl", "x", "--journal", path.parent]
    said = given.command(*words, "--namespace", name)
    assert said.code != ExitCode.OK, said
    assert said.err.startswith("frontier: ") or "skipped" in said.err


@hostile("journal/names-with-escapes")
def _(given):
    name = f"h{given.unique}"
    head = frame(Header(name, "x", "\x1b]0;owned\x07", "\x1b[2Jn", SHAPE, BORN))
    path = given.file(
        f"j/{NAME}", head + frame(Pushed(0, "t", LEAST_MARK, "0:\x1b", item()))
    )
    words = ["crawl", "rebuild", "--crawl", "x", "--journal", path.parent]
    given.command(*words, "--namespace", name)
    said = given.command("crawl", "status", "--namespace", name)
    assert said.code in {ExitCode.OK, ExitCode.NOT_FOUND}, said
