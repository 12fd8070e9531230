"""Exported seen-sets."""

import gzip

import msgpack

from frontier.cli.output import ExitCode
from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import InputBroken
from frontier.seen.export import FORMAT, VERSION, Import
from frontier.settings.config import Config
from tests.hostile.corpus import hostile_each, refused
from tests.hostile.making import MSGPACK, bomb

MARK = 1 << 62
END = ["end", 0]
HEADER = {"format": FORMAT, "version": VERSION, "crawl_id": "x", "spider": "site"}
HEADER |= {"shape": crawl_settings(Config())}


def file(*messages, **facts):
    every = [HEADER | facts, *messages]
    return gzip.compress(b"".join(map(msgpack.packb, every)))


def raw(data):
    """What msgpack is to read after a good header."""
    return gzip.compress(msgpack.packb(HEADER) + data)


BROKEN = {
    "empty": b"",
    "another-file": b"PK\3\4" * 100,
    "gzip-of-nothing": gzip.compress(b""),
    "gzip-of-text": gzip.compress(b"http://a.example/\n" * 100),
    "a-bomb": lambda: bomb(b"\xc0", 100),
    "a-bomb-of-one-message": lambda: bomb(
        msgpack.packb(HEADER) + b"\xc6\x7f\xff\xff\xff", 100
    ),
    "a-header-of-a-list": gzip.compress(msgpack.packb(["x"])),
    "a-header-of-100000-levels": gzip.compress(b"\x91" * 100_000),
    "a-header-of-4-gb": gzip.compress(b"\xdf\xff\xff\xff\xff"),
    "a-spider-of-a-list": file(END, spider=["x"]),
    "a-shape-of-a-list": file(END, shape=["x"]),
    "a-shape-of-words": file(END, shape={"partitions": "many"}),
    "no-end": file(),
    "another-checksum": file(END)[:-5] + b"\0\0\0\0\0",
    "more-after-the-end": file(END) + b"x",
    "a-message-after-the-end": file(END, END),
    "fewer-urls-than-it-says": file(["end", 10]),
    "urls-of-text": file(["end", "many"]),
    **{name: raw(data) for name, data in MSGPACK.items()},
    "four-billion-marks": raw(b"\x93\xa5marks\x00\xdd\xff\xff\xff\xff"),
    "the-same-mark-a-million-times": file(*[["marks", 0, [MARK] * 8192]] * 128),
    "marks-that-are-none": file(["marks", 0, [5]], ["end", 1]),
    "a-million-filters": file(["partition", 0, 1, 10**6, 1], END),
    "filters-below-zero": file(["partition", 0, 1, -1, 1], END),
    "marks-of-text": file(["marks", 0, "abc"], END),
    "marks-of-a-partition-below-zero": file(["marks", -1, [MARK]], END),
    "a-mark-of-true": file(["marks", 0, [True]], ["end", 1]),
    "a-mark-of-a-fraction": file(["marks", 0, [1.5]], ["end", 1]),
    "a-mark-beyond-63-bits": file(["marks", 0, [2**63]], ["end", 1]),
    "bits-of-text": file(["bits", 0, 0, 0, "x"], END),
    "bits-below-zero": file(["bits", 0, 0, -1, b"x"], END),
    "a-message-of-nothing": file([], END),
    "a-message-of-a-number": file(5, END),
}


@hostile_each("export", BROKEN)
def _(given, data):
    path = given.file("x.seen", data() if callable(data) else data)
    with refused(InputBroken, "nothing was imported"):
        Import(path)
    name = f"h{given.unique}"
    words = ["seen", "import", path, "--new", "y", "--namespace", name]
    said = given.command(*words)
    assert said.code == ExitCode.USAGE, said
    assert "nothing was imported" in said.err
    assert not given.redis("KEYS", f"*{name}*")


WHOLE = {
    "a-partition-of-4-billion": file(["partition", 2**32 - 1, 0, 1, 1], END),
    "names-with-escapes": file(END, crawl_id="\x1b[31m", spider="\x1b]0;owned\x07"),
    "rules-of-a-list": file(END, shape=HEADER["shape"] | {"canonicalization": ["x"]}),
}


@hostile_each("export", WHOLE)
def _(given, data):
    path = given.file("x.seen", data)
    name = f"h{given.unique}"
    words = ["seen", "import", path, "--new", "y", "--namespace", name]
    said = given.command(*words)
    assert said.code == ExitCode.OK or said.err.startswith("frontier: "), said
