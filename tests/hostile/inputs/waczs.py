"""WACZ files, and zip files that lie."""

import gzip
import json
import zipfile

from frontier.cli.output import ExitCode
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import line, nested, patched, record, wacz, warc, zipped

INDEX = ("indexes/index.cdx.gz", gzip.compress(line().encode()))
PACKAGE = ("datapackage.json", "{}")


def a_link():
    made = zipfile.ZipInfo("indexes/index.cdxj")
    made.create_system, made.external_attr = 3, 0o120777 << 16
    return made


def twice(path):
    with_warning = zipfile.ZipFile(path, "w")
    with with_warning as archive:
        for _ in range(2):
            archive.writestr(*INDEX)
    return path


SOURCES = {  # name to what makes it; none of them gives more than it says
    "empty": lambda p: p.write_bytes(b""),
    "html": lambda p: p.write_bytes(b"<html>not found</html>"),
    "only-an-end": lambda p: p.write_bytes(b"PK\5\6" + bytes(18)),
    "no-index": lambda p: zipped(p, [PACKAGE]),
    "index-that-climbs": lambda p: zipped(p, [PACKAGE, ("../indexes/i.cdxj", line())]),
    "index-of-an-absolute-path": lambda p: zipped(
        p, [PACKAGE, ("/indexes/i.cdxj", "")]
    ),
    "cut-in-the-directory": lambda p: patched(wacz(p), b"PK\5\6", b"PK\5\7"),
    "another-checksum": lambda p: patched(
        zipped(p, [PACKAGE, ("indexes/index.cdxj", line())]), b"text/html", b"text/htmX"
    ),
    "an-encrypted-member": lambda p: patched(
        wacz(p), b"PK\1\2\x14\3\x14\0\0\0", b"PK\1\2\x14\3\x14\0\1\0"
    ),
    "a-method-of-nobody": lambda p: patched(
        wacz(p), b"PK\1\2\x14\3\x14\0\0\0\0\0", b"PK\1\2\x14\3\x14\0\0\0\x63\0"
    ),
    "index-of-half-a-gzip": lambda p: zipped(p, [(INDEX[0], INDEX[1][:-9])]),
    "two-thousand-indexes": lambda p: zipped(
        p, [(f"indexes/{n}.cdxj", line(n)) for n in range(2_000)]
    ),
}


@hostile_each("wacz", SOURCES)
def _(given, make):
    path = given.directory / "a.wacz"
    make(path)
    said = given.incomplete("collection", "import", path)
    assert "a.wacz" in said.err
    assert given.imported == 0
    said = given.command("wacz", "check", path)
    assert said.code != ExitCode.OK
    assert "a.wacz: " in said.out + said.err


BOMB = "to more than 100 times its size"
BOMBS = {  # name to what makes it, and what a check says of it
    "index-of-a-bomb": (
        lambda p: zipped(p, [(INDEX[0], gzip.compress(bytes(300 << 20), 9))]),
        "is missing",
    ),
    "member-of-a-bomb": (
        lambda p: zipped(
            p, [("indexes/index.cdxj", bytes(300 << 20))], zipfile.ZIP_DEFLATED
        ),
        BOMB,
    ),
}


@hostile_each("wacz", BOMBS)
def _(given, make, told):
    path = given.directory / "a.wacz"
    make(path)
    said = given.incomplete("collection", "import", path)
    assert BOMB in said.err
    assert given.imported == 0
    said = given.command("wacz", "check", path)
    assert said.code == ExitCode.FAULTY
    assert told in said.out


READ = {  # the same for those that have lines that can be used
    "a-link-as-an-index": lambda p: zipped(
        p, [PACKAGE, INDEX, (a_link(), "/etc/passwd")]
    ),
    "an-index-twice": twice,
    "pages-of-100000-levels": lambda p: wacz(
        p, **{"pages/pages.jsonl": nested("[", "]", 100_000)}
    ),
    "pages-with-escapes": lambda p: wacz(
        p, **{"pages/pages.jsonl": json.dumps({"title": "\x1b]0;owned\x07"})}
    ),
    "pages-of-10-mb-in-a-line": lambda p: wacz(
        p, **{"pages/pages.jsonl": "x" * (10 << 20)}
    ),
    "a-name-with-escapes": lambda p: wacz(
        p, **{"archive/\x1b[31m.warc.gz": warc(record())}
    ),
    "a-name-of-64-kb": lambda p: wacz(p, **{"archive/" + "a" * 65_000: ""}),
}


@hostile_each("wacz", READ)
def _(given, make):
    path = given.directory / "a.wacz"
    make(path)
    said = given.command("collection", "import", path)
    assert said.code in {ExitCode.OK, ExitCode.INCOMPLETE}, said
    said = given.command("wacz", "check", path)
    assert said.code == ExitCode.FAULTY, said


PACKAGES = {
    "a-resource-of-text": {"resources": ["x"]},
    "a-resource-that-climbs": {
        "resources": [{"path": "../../bait/x", "hash": "sha256:0"}]
    },
    "a-resource-of-nobody": {"resources": [{"path": "nobody", "hash": "sha256:00"}]},
    "sizes-of-words": {
        "resources": [{"path": "indexes/index.cdx.gz", "bytes": "many"}]
    },
    "needs-with-escapes": {
        "relation": {"requires": [{"filename": "\x1b[31m", "hash": 7}]},
        "resources": [],
    },
    "a-title-of-a-megabyte": {"title": "x" * 10**6, "resources": []},
}


@hostile_each("wacz", PACKAGES)
def _(given, package):
    given.bait("x")
    path = wacz(given.directory / "a.wacz")
    text = json.dumps({"profile": "data-package", "wacz_version": "1.1.1"} | package)
    zipped(path, [("datapackage.json", text), INDEX])
    said = given.command("wacz", "check", path)
    assert said.code == ExitCode.FAULTY
    assert len(said.out) < 100_000


@hostile("wacz/create-over-a-link")
def _(given):
    bait = given.bait("target.wacz")
    path = given.file("a.warc.gz", warc(record()))
    (given.directory / "out.wacz").symlink_to(bait)
    said = given.command("wacz", "create", "out.wacz", path)
    assert said.code == ExitCode.USAGE
    assert "add --force" in said.err
