"""WARC files."""

import gzip

from frontier.cli.output import ExitCode
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import BIG, record, warc, warc_bomb, zeros

GOOD = record(1)
LONG = "http://a.example/" + "a" * 10**6
PLAIN = {  # name to data that is refused or left out, as .warc.gz
    "empty": b"",
    "two-bytes-of-gzip": b"\x1f\x8b",
    "no-gzip": b"WARC/1.1\r\n",
    "cut-in-the-middle": warc(GOOD, GOOD)[:-20],
    "garbage-after-the-last-record": warc(GOOD) + b"garbage",
    "garbage-between": warc(GOOD) + b"\0" * 512 + warc(GOOD),
    "a-wrong-checksum": warc(GOOD)[:-8] + b"\0\0\0\0" + warc(GOOD)[-4:],
    "a-member-of-something-else": warc(GOOD) + gzip.compress(b"<html>"),
    "length-of-10-to-the-13": warc(record(0, length=BIG), GOOD),
    "length-below-zero": warc(record(0, length=-1), GOOD),
    "length-of-words": warc(record(0, length="many"), GOOD),
    "length-of-4300-digits": warc(record(0, length="9" * 5000), GOOD),
    "length-in-arabic-digits": warc(record(0, length="\u0661\u0662"), GOOD),
    "length-of-one-less": warc(record(0, length=10), GOOD),
    "length-of-3000-at-the-end": warc(GOOD, record(0, length=3_000)),
    "html": b"<html>not found</html>",
}


@hostile_each("warc", PLAIN)
def _(given, data):
    path = given.file("a.warc.gz", data)
    said = given.incomplete("collection", "import", path)
    assert "a.warc.gz" in said.err
    assert not given.redis("HLEN", f"{given.unique}:alldupes")
    made = given.command("wacz", "create", "a.wacz", path)
    assert made.code != ExitCode.OK
    assert not (given.directory / "a.wacz").exists()


LISTED = {  # name to records that readers differ over, and none must end with
    "a-date-of-the-year-99999": record(0, WARC_Date="99999-01-01T00:00:00Z"),
    "a-date-of-words": record(0, WARC_Date="yesterday"),
    "a-target-with-escapes": record(0, WARC_Target_URI="http://a.example/\x1b[2J\x07"),
    "a-target-with-a-nul": record(0, WARC_Target_URI=b"http://a.example/\0"),
    "a-target-of-latin-1": record(0, WARC_Target_URI=b"http://a.example/\xe9\xff"),
    "a-target-of-a-megabyte": record(0, WARC_Target_URI=LONG),
    "a-target-of-brackets": record(0, WARC_Target_URI="http://[::1/"),
    "a-target-of-a-script": record(0, WARC_Target_URI="javascript:alert(1)"),
    "a-target-with-line-ends": record(0, WARC_Target_URI="http://a.example/\n x: y"),
    "a-reason-with-escapes": record(0, b"HTTP/1.1 200 \x1b]0;owned\x07\r\n\r\nx"),
    "a-status-of-words": record(0, b"HTTP/1.1 OK\r\n\r\nx"),
    "a-mime-with-escapes": record(
        0, b"HTTP/1.1 200 OK\r\nContent-Type: text/\x1b[31mhtml\r\n\r\nx"
    ),
    "a-type-of-nothing-known": record(0, kind="r\u00e9ponse"),
    "no-headers": b"WARC/1.1\r\n\r\n\r\n\r\n",
    "no-target": record(0, WARC_Target_URI=None),
    "a-digest-of-words": record(0, WARC_Payload_Digest="sha256:\x1b[31m"),
    "a-digest-of-a-megabyte": record(0, WARC_Payload_Digest="sha256:" + "0" * 10**6),
    "headers-without-number": record(0, **{f"X-{n}": "y" for n in range(100_000)}),
    "two-lengths": record(0).replace(b"\r\n\r\n", b"\r\nContent-Length: 5\r\n\r\n", 1),
    "a-header-of-a-megabyte": record(0, X="y" * 10**6),
    "an-http-head-of-8-mb": record(
        0, b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_400_000 + b"\r\nx"
    ),
    "a-revisit-of-nothing": record(0, kind="revisit"),
    "a-revisit-of-itself": record(
        0, kind="revisit", WARC_Refers_To_Target_URI="http://a.example/0"
    ),
}


SAME = {
    (ExitCode.OK, ExitCode.OK),
    (ExitCode.FAULTY, ExitCode.INCOMPLETE),
}
"""What `wacz check` says of what `wacz create` has made."""


@hostile_each("warc", LISTED)
def _(given, odd):
    path = given.file("a.warc.gz", warc(record(1), odd, record(2)))
    said = given.command("warc", "list", path)
    assert said.code in {ExitCode.OK, ExitCode.INCOMPLETE, ExitCode.FAULTY}, said
    assert "http://a.example/1" in said.out
    said = given.command("collection", "import", path)
    assert said.code in {ExitCode.OK, ExitCode.INCOMPLETE}, said
    assert said.code == ExitCode.OK or "a.warc.gz" in said.err
    made = given.command("wacz", "create", "a.wacz", path)
    if made.code in {ExitCode.OK, ExitCode.INCOMPLETE}:
        said = given.command("wacz", "check", "a.wacz")
        assert (said.code, made.code) in SAME, said
        lacks = "unresolved revisit" in said.out or "not in the index" in made.err
        assert lacks == (said.code != ExitCode.OK), said
    else:
        assert "a.warc.gz" in made.err
        assert not (given.directory / "a.wacz").exists()


@hostile("warc/a-million-tiny-members", cpu=20)
def _(given):
    tiny = gzip.compress(b"")
    path = given.file("a.warc.gz", [warc(record(1)), *([tiny * 1_000] * 1_000)])
    said = given.command("collection", "import", path)
    assert said.code == ExitCode.OK, said


@hostile("warc/384-mb-in-400-kb")
def _(given):
    path = given.file("a.warc.gz", warc_bomb(384))
    said = given.command("warc", "list", path)
    assert said.code == ExitCode.OK
    assert "http://a.example/0" in said.out


@hostile("warc/zeros-without-a-record")
def _(given):
    path = given.file("a.warc.gz", zeros(384))
    given.incomplete("collection", "import", path)


@hostile("warc/plain-with-a-length-of-10-to-the-13")
def _(given):
    path = given.file("a.warc", record(0, length=BIG) + record(1))
    said = given.incomplete("collection", "import", path)
    assert "the last record is cut off" in said.err


@hostile("warc/repair-of-a-file-that-is-cut-off")
def _(given):
    path = given.file("w/c-20260101000000000-00001-n.warc.gz.open", warc(GOOD) * 2)
    with path.open("ab") as file:
        file.write(gzip.compress(record(2))[:-9])
    said = given.command("warc", "repair", path.parent)
    assert said.code == ExitCode.OK, said
    (made,) = path.parent.glob("*.warc.gz")
    assert made.read_bytes() == warc(GOOD)  # the second lacks what follows it
