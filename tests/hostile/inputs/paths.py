"""Paths that lead to no regular file: what is read must neither wait nor end badly."""

import os
import socket

from frontier.cli.output import ExitCode
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import bomb, record, warc, warc_bomb


def fifo(path):
    os.mkfifo(path)
    return "a FIFO"


def listening(path):
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # a name of a socket has 108 bytes
        made.bind(path.name)
    return "a socket"


def device(path):
    path.symlink_to("/dev/zero")
    return "a device"


def directory(path):
    path.mkdir()
    return "a directory"


def loop(path):
    path.symlink_to(path.name)
    return "symbolic links"


COMMANDS = {
    "collection-import-cdx": (("collection", "import"), "a.cdxj"),
    "collection-import-log": (("collection", "import"), "a.log"),
    "collection-import-manifest": (("collection", "import"), "a.json"),
    "collection-import-wacz": (("collection", "import"), "a.wacz"),
    "collection-import-warc": (("collection", "import"), "a.warc.gz"),
    "crawl-seed": (("crawl", "seed"), "seeds.txt"),
    "wacz-check": (("wacz", "check"), "a.wacz"),
    "warc-list": (("warc", "list"), "a.warc.gz"),
}
CASES = {
    f"{name}-of-a-fifo": (words, file, fifo) for name, (words, file) in COMMANDS.items()
} | {
    f"wacz-check-of-{kind.__name__}": (*COMMANDS["wacz-check"], kind)
    for kind in (listening, device, directory, loop)
}


@hostile_each("path", CASES)
def _(given, words, file, kind):
    path = given.directory / file
    what = kind(path)
    said = given.command(*words, path)
    assert said.code not in {ExitCode.OK, 1}
    assert what in said.err + said.out
    assert file in said.err + said.out


def odd_directory(given, end):
    """WARC files of four kinds of which one is one."""
    where = given.directory / "w"
    where.mkdir()
    for number, kind in enumerate((fifo, directory, listening)):
        kind(where / f"c-20260101000000123-0000{number}-n.warc.gz{end}")
    good = given.file(
        f"w/c-20260101000000123-00009-n.warc.gz{end}",
        warc(record(1), record(2, kind="metadata")),
    )
    return where, good


@hostile("path/warc-repair-of-a-directory-of-all-kinds")
def _(given):
    where, good = odd_directory(given, ".open")
    loop(where / "c-20260101000000123-00008-n.warc.gz.open")
    said = given.incomplete("warc", "repair", where)
    assert said.err.count("was not repaired: it is a") == 4
    assert good.with_suffix("").exists()


@hostile("path/list-and-import-of-a-directory-of-all-kinds")
def _(given):
    where, _ = odd_directory(given, "")
    for words in (("warc", "list"), ("collection", "import")):
        said = given.incomplete(*words, where)
        assert said.err.count("not a regular file") == 2  # one is a directory
        assert given.imported or "http://a.example/1" in said.out
    assert given.imported == 1


@hostile("path/wacz-create-of-a-directory-of-all-kinds")
def _(given):
    where, _ = odd_directory(given, "")
    said = given.incomplete("wacz", "create", given.directory / "a.wacz", where)
    assert said.err.count("is skipped: it is not a regular file") == 3
    assert "1 captures" in said.out
    assert (given.directory / "a.wacz").exists()


@hostile("path/import-of-a-warc-that-is-a-bomb")
def _(given):
    path = given.file("a.warc.gz", warc_bomb(128))
    said = given.incomplete("collection", "import", path)
    assert "inflates to more than 100 times" in said.err


@hostile_each("path", {f"import-of-a-bomb{end}": (end,) for end in (".cdxj", ".log")})
def _(given, end):
    path = given.file(f"a{end}.gz", bomb(b"", 128))
    said = given.incomplete("collection", "import", path)
    assert "inflates to more than 100 times" in said.err


@hostile("path/escapes-in-a-reason-and-in-headers")
def _(given):
    evil = b"\x1b]0;owned\x07\x1b[2J"
    block = b"HTTP/1.1 200 " + evil + b"\r\nContent-Type: text/" + evil
    block += b"\r\nX-" + evil + b": \xc2\x9b31m\r\n\r\n<title>" + evil + b"</title>"
    path = given.file("w/a.warc.gz", warc(record(1, block)))
    for words in (
        ("warc", "list", path),
        ("warc", "show", path, "http://a.example/1"),
        ("collection", "import", path),
        ("wacz", "create", given.directory / "a.wacz", path),
        ("wacz", "check", given.directory / "a.wacz"),
    ):
        said = given.command(*words)  # the runner looks for what a terminal obeys
        assert said.code in {ExitCode.OK, ExitCode.INCOMPLETE}
