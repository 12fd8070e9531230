"""Lists of files to import, and directories to import from."""

import os

from frontier.cli.output import ExitCode
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import manifest, nested, record, resource, wacz, warc


def imported(given, text, *words):
    path = given.file("all.json", text)
    return given.incomplete("collection", "import", path, *words)


@hostile("manifest/names-a-file-outside")
def _(given):
    bait = given.bait("secret.wacz")
    said = imported(given, manifest({"path": str(bait)}))
    assert "names a file outside" in said.err


@hostile("manifest/climbs-out")
def _(given):
    given.bait("secret.wacz")
    said = imported(given, manifest({"path": "sub/../../bait/secret.wacz"}))
    assert "names a file outside" in said.err


@hostile("manifest/a-link-that-leads-out")
def _(given):
    (given.directory / "link.wacz").symlink_to(given.bait("secret.wacz"))
    said = imported(given, manifest({"path": "link.wacz"}))
    assert "names a file outside" in said.err


@hostile("manifest/a-directory-that-is-a-link")
def _(given):
    (given.directory / "sub").symlink_to(given.bait("secret.wacz").parent)
    said = imported(given, manifest({"path": "sub/secret.wacz"}))
    assert "names a file outside" in said.err


@hostile("manifest/chain-of-links-to-itself")
def _(given):
    (given.directory / "a.wacz").symlink_to("b.wacz")
    (given.directory / "b.wacz").symlink_to("a.wacz")
    imported(given, manifest({"path": "a.wacz"}))


@hostile("manifest/a-file-url")
def _(given):
    bait = given.bait("secret.wacz")
    said = imported(given, manifest({"path": f"file://{bait}"}))
    assert "only http, https and s3" in said.err


ODD = {
    "list": "[]",
    "number": "1e400",
    "nan": '{"resources": NaN}',
    "empty": "",
    "deep": '{"resources": ' + nested("[", "]", 100_000) + "}",
    "deep-objects": '{"resources": [' + nested('{"a":', "}", 50_000) + "]}",
    "latin-1": b'{"resources": "\xe9"}',
    "half": '{"resources": [{"path": "a.wacz"},',
    "nul": b"\0" * 1000,
    "resources-of-text": '{"resources": "a.wacz"}',
    "a-number-of-a-million-digits": '{"resources": [' + "9" * 10**6 + "]}",
}


@hostile_each("manifest", ODD)
def _(given, text):
    said = imported(given, text)
    assert "all.json" in said.err


ENTRIES = {
    "entry-of-text": "a.wacz",
    "entry-without-path": {"name": "a.wacz"},
    "path-of-a-number": {"path": 7},
    "path-with-a-nul": {"path": "a\0.wacz"},
    "path-with-an-escape": {"path": "\x1b]0;owned\x07.wacz"},
    "path-of-a-megabyte": {"path": "a" * 10**6 + ".wacz"},
    "path-of-a-surrogate": {"path": "a\ud800.wacz"},
    "path-of-many-parts": {"path": "a/" * 900 + "a.wacz"},
    "size-below-zero": {"path": "a.wacz", "size": -1},
    "size-of-10-to-the-30": {"path": "a.wacz", "size": 10**30},
    "size-of-true": {"path": "a.wacz", "size": True},
    "hash-of-md5": {"path": "a.wacz", "hash": "md5:00"},
    "hash-of-a-list": {"path": "a.wacz", "hash": ["x"]},
    "crawl-id-of-keys": {"path": "a.wacz", "crawlId": "x:counts"},
    "crawl-id-of-a-list": {"path": "a.wacz", "crawlId": []},
    "crawl-id-with-a-brace": {"path": "a.wacz", "crawlId": "{x}\r\nDEL y"},
    "a-name-of-another-kind": {"path": "a.exe"},
    "an-url-without-host": {"path": "http://"},
    "an-url-with-a-wrong-port": {"path": "http://127.0.0.1:99999/a.wacz"},
    "an-url-of-brackets": {"path": "http://[::1/a.wacz"},
    "an-url-with-a-line-end": {"path": "http://127.0.0.1:1/a\r\nX: y.wacz"},
}


@hostile_each("manifest", ENTRIES)
def _(given, entry):
    good = wacz(given.directory / "good.wacz")
    said = imported(given, manifest(entry, resource(good)))
    assert "left out" in said.err
    assert given.imported == 1  # the other one is there


@hostile("manifest/a-thousand-files-that-are-missing")
def _(given):
    entries = [{"path": f"{n}.wacz"} for n in range(1_000)]
    imported(given, manifest(*entries))


@hostile("manifest/of-itself-fifty-times")
def _(given):
    good = wacz(given.directory / "good.wacz")
    entries = [{"path": p} for p in ("all.json", "./all.json", "link.json") * 16]
    (given.directory / "link.json").symlink_to("all.json")
    said = imported(given, manifest(*entries, resource(good)))
    assert "a manifest in a manifest; import it separately" in said.err
    assert given.imported == 1


@hostile("manifest/a-file-that-shrinks-in-the-manifest")
def _(given):
    good = wacz(given.directory / "good.wacz")
    said = imported(given, manifest(resource(good, size=1)))
    assert "its manifest says 1" in said.err


@hostile("manifest/another-hash")
def _(given):
    good = wacz(given.directory / "good.wacz")
    said = imported(given, manifest(resource(good, hash="0" * 64)))
    assert "its SHA-256 is" in said.err


@hostile("manifest/names-with-line-ends-in-a-directory")
def _(given):
    given.file("w/a\nb\x1b[31m.warc.gz", warc(record()))
    said = given.command("collection", "import", given.directory / "w")
    assert said.code in {ExitCode.OK, ExitCode.INCOMPLETE}


@hostile("manifest/a-name-that-is-no-text-in-a-directory")
def _(given):
    given.file(os.fsdecode(b"w/\xff\xfe.warc.gz"), warc(record()))
    given.file("w/good.warc.gz", warc(record()))
    said = given.incomplete("collection", "import", given.directory / "w")
    assert "its name is not UTF-8" in said.err
    assert given.imported == 1
