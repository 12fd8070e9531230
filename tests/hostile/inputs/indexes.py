"""Indexes that other tools wrote: CDXJ, CDX and crawl.log."""

import gzip
import json

from frontier.cli.output import ExitCode
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import bomb, line, nested

HEAD = "example,site)/0 20260102030405 "
LINES = {  # name to a line that is left out, and the one after it is not
    "json-of-100000-levels": HEAD + "{" + nested('"a":{', "}", 100_000) + "}",
    "json-of-a-list": HEAD + " {}[]",
    "json-that-is-cut": HEAD + '{"url": "http://a',
    "no-url": HEAD + "{}",
    "no-json": "no json at all",
    "date-of-february-30th": line().replace("20260102", "20260230").rstrip(),
    "digest-of-crc32": line(digest="crc32:00").rstrip(),
    "no-digest": line(digest="-").rstrip(),
    "url-of-a-number": HEAD + '{"url": 7}',
    "digest-of-a-list": line(digest=["x"]).rstrip(),
    "digest-with-a-nul": line(digest="sha256:" + "0" * 63 + "\0").rstrip(),
    "digest-of-a-megabyte": line(digest="sha256:" + "0" * 10**6).rstrip(),
    "length-of-10-to-the-13": line(length="10000000000000").rstrip(),
    "length-below-zero": line(length="-5").rstrip(),
    "length-of-5000-digits": line(length="9" * 5_000).rstrip(),
    "length-of-a-number-of-5000-digits": line(length=0)
    .replace('"length": 0', '"length": ' + "9" * 5_000)
    .rstrip(),
    "length-of-infinity": line(length=float("inf")).rstrip(),
    "length-in-arabic-digits": line(length="\u0661\u0662").rstrip(),
    "url-of-100-kb": line(url="http://a.example/" + "a" * 100_000).rstrip(),
    "date-of-words": line().replace("20260102030405", "yesterday_____").rstrip(),
    "date-of-the-13th-month": line().replace("20260102", "20261302").rstrip(),
    "nuls": "\0" * 1_000,
    "a-line-of-2-mb": "x" * (2 << 20),
}


@hostile_each("index", LINES)
def _(given, text):
    path = given.file("a.cdxj", text + "\n" + line(1))
    said = given.incomplete("collection", "import", path)
    assert "line 1" in said.err
    assert len(said.err) < 5_000
    assert given.imported == 1


@hostile("index/a-line-of-100-mb")
def _(given):
    pieces = [b"x" * (1 << 20)] * 100
    path = given.file("a.cdxj", [*pieces, b"\n", line(1).encode()])
    given.incomplete("collection", "import", path)
    assert given.imported == 1


@hostile("index/a-line-of-100-mb-in-gzip")
def _(given):
    path = given.file("a.cdxj.gz", bomb(b"x", 100, b"\n" + line(1).encode()))
    said = given.incomplete("collection", "import", path)
    assert "a.cdxj.gz" in said.err


@hostile("index/gzip-within-gzip")
def _(given):
    path = given.file("a.cdxj.gz", gzip.compress(gzip.compress(line(1).encode())))
    given.incomplete("collection", "import", path)
    assert given.imported == 0


@hostile("index/ten-thousand-broken-lines")
def _(given):
    path = given.file("a.cdxj", (HEAD + "{}\n") * 10_000 + line(1))
    said = given.incomplete("collection", "import", path)
    assert said.err.count("\n") < 200
    assert given.imported == 1


@hostile("index/a-url-with-escapes")
def _(given):
    path = given.file("a.cdxj", line(url="http://a.example/\x1b[31m", digest="x"))
    given.incomplete("collection", "import", path)


LOG = (
    "2026-01-02T03:04:05.000Z   200  10 %s L - text/html #001 "
    "20260102030405000+1 %s - -"
)
DIGEST = "sha1:" + "A" * 32
LOGS = {
    "status-of-words": LOG.replace("200", "okay") % ("http://a.example/", DIGEST),
    "digest-of-words": LOG % ("http://a.example/", "sha1:words"),
    "url-of-100-kb": LOG % ("http://a.example/" + "a" * 100_000, DIGEST),
    "three-columns": "a b c",
    "size-below-zero": LOG.replace(" 10 ", " -9999999999999999 ")
    % ("http://a/", DIGEST),
    "size-of-5000-digits": LOG.replace(" 10 ", f" {'9' * 5_000} ")
    % ("http://a/", DIGEST),
}


@hostile_each("log", LOGS)
def _(given, text):
    good = LOG % ("http://good.example/", "sha1:" + "B" * 32)
    path = given.file("crawl.log", f"{text}\n{good}\n")
    said = given.command("collection", "import", path)
    assert said.code in {ExitCode.OK, ExitCode.INCOMPLETE}, said
    assert given.imported >= 1
    if said.code == ExitCode.INCOMPLETE:
        assert "line 1" in said.err
        assert given.imported == 1


@hostile("index/json-with-the-same-name-a-million-times")
def _(given):
    many = ", ".join(['"a": 1'] * 100_000)
    text = json.dumps({"url": "http://a.example/"})[:-1] + f", {many}}}"
    path = given.file("a.cdxj", HEAD + text + "\n" + line(1))
    given.incomplete("collection", "import", path)
    assert given.imported == 1
