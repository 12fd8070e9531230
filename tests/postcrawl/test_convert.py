"""ARC files become WARC, as others read it."""

import gzip
import random
from functools import partial

import pytest
from warcio.archiveiterator import ArchiveIterator as Warcio

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.test_dedupe import run
from tests.warc.judges import records_in

HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LONG = random.Random(2).randbytes(2 << 20)
RECORDS = [
    ("dns:a.example", "10.0.0.1", "text/dns", b"20090101000000\na.example. 60 IN A"),
    ("http://a.example/", "10.0.0.2", "text/html", HTTP + b"<p>page</p>"),
    ("http://a.example/a b", "10.0.0.2", "text/html", HTTP + b"with a space"),
    ("http://a.example/empty", "10.0.0.2", "no-type", b""),
    ("http://a.example/old", "10.0.0.2", "text/html", b"<p>HTTP/0.9</p>\n\n"),
    ("http://a.example/c", "10.0.0.2", "text/html", CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"),
    ("http://a.example/long", "10.0.0.2", "image/png", HTTP + LONG),
    ("ftp://a.example/file", "0.0.0.0", "application/x-gzip", b"\x1f\x8b\x08"),
]
TYPES = ["resource", "response", "response", "resource"]
TYPES += ["resource", "response", "response", "resource"]


def arc(version, separator=b"\n"):
    """The records of an ARC file."""
    fields = b"URL IP-address Archive-date Content-type"
    more = b" Result-code Checksum Location Offset Filename" if version == 2 else b""
    block = b"%d 0 Somebody\n%b%b Archive-length\n" % (version, fields, more)
    made = []
    name = "filedesc://one.arc"
    for number, (url, address, mime, body) in enumerate(
        [(name, "0.0.0.0", "text/plain", block), *RECORDS]
    ):
        middle = "200 - - 0 one.arc " if version == 2 else ""
        date = f"200901010000{number:02}"
        line = f"{url} {address} {date} {mime} {middle}{len(body)}\n"
        made.append(line.encode() + body + separator)
    return made


def packed(parts, how):
    if how == "records":
        return b"".join(map(gzip.compress, parts))
    return gzip.compress(b"".join(parts)) if how == "whole" else b"".join(parts)


convert = partial(run, "convert")


@pytest.mark.parametrize("how", ["plain", "records", "whole"])
@pytest.mark.parametrize("separator", [b"\n", b"", b"\r\n"], ids=["LF", "none", "CRLF"])
@pytest.mark.parametrize("version", [1, 2])
def test_arc_is_read_by_length_and_becomes_warc(tmp_path, version, separator, how):
    path = tmp_path / ("one.arc" if how == "plain" else "one.arc.gz")
    path.write_bytes(packed(arc(version, separator), how))

    done = convert(path, "-o", tmp_path / "out")

    assert done["records"] == len(RECORDS) + 1
    out = tmp_path / "out" / "one.warc.gz"
    found = [
        (headers["WARC-Type"], headers.get("WARC-Target-URI"), block)
        for headers, block in records_in([out])
    ]
    assert [name for name, _, _ in found] == ["warcinfo", "metadata", *TYPES]
    assert [block for _, _, block in found[2:]] == [block for *_, block in RECORDS]
    urls = [url.replace(" ", "%20") for url, *_ in RECORDS]
    assert [url for _, url, _ in found[2:]] == urls
    with out.open("rb") as file:
        for record in Warcio(file, check_digests="raise"):
            record.content_stream().read()
            line = record.rec_headers["X-Frontier-Arc-Header"]
            if record.rec_type == "resource" and line.startswith("dns:"):
                assert record.rec_headers["Content-Type"] == "text/dns"
                assert record.rec_headers["WARC-Date"] == "2009-01-01T00:00:01Z"
                assert record.rec_headers["WARC-IP-Address"] == "10.0.0.1"
                assert line.startswith("dns:a.example 10.0.0.1 20090101000001 text/dns")


def test_a_second_run_makes_the_same_bytes_and_keeps_what_is_there(tmp_path):
    path = tmp_path / "one.arc.gz"
    path.write_bytes(packed(arc(2), "records"))
    convert(path, "-o", tmp_path / "out")
    convert(path, "-o", tmp_path / "again")
    first, again = (tmp_path / name / "one.warc.gz" for name in ("out", "again"))
    was = first.stat().st_ino

    convert(path, "-o", tmp_path / "out")

    assert first.read_bytes() == again.read_bytes()
    assert first.stat().st_ino == was
    path.write_bytes(packed(arc(2)[:4], "records"))
    done = convert(path, "-o", tmp_path / "out", code=ExitCode.INCOMPLETE)
    assert "one.warc.gz exists" in done["files_left"][0]
    assert first.stat().st_ino == was


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: data[:-100], "the last record is cut off"),
        (lambda data: data.replace(b" 20090101000003 ", b" never "), "no ARC record"),
    ],
    ids=["cut", "date"],
)
def test_a_damaged_arc_is_named_and_not_converted(tmp_path, change, reason):
    (tmp_path / "bad.arc").write_bytes(change(packed(arc(1), "plain")))
    (tmp_path / "good.arc").write_bytes(packed(arc(1), "plain"))

    done = convert(tmp_path, "-o", tmp_path / "out", code=ExitCode.INCOMPLETE)

    assert done["written"] == 1
    (told,) = done["files_left"]
    assert f"bad.arc: {reason}" in told
    assert " at byte " in told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "good.warc.gz",
        "good.cdxj",
    }


def test_records_that_share_a_member_get_one_of_their_own(new_warc, tmp_path):
    """Their headers and blocks are the bytes that they were."""
    warc = new_warc("one.warc", packed=False)
    for second in range(3):
        warc.response("http://a.example/", second, b"x" * 100)
    plain = warc.close()
    whole = tmp_path / "whole.warc.gz"
    whole.write_bytes(gzip.compress(plain.read_bytes()))

    convert(whole, "-o", tmp_path / "out")

    made = (tmp_path / "out" / "whole.warc.gz").read_bytes()
    assert gzip.decompress(made) == plain.read_bytes()


def test_each_run_names_the_records_that_the_index_lacks(new_warc, tmp_path):
    warc = new_warc("one.warc", packed=False)
    warc.response("http://a.example/", 0, b"x" * 100)
    path = warc.close()
    url = b"WARC-Target-URI: http://a.example/\r\n"
    assert url in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(url, b""))

    first, second = (
        convert(path, "-o", tmp_path / "out", code=ExitCode.INCOMPLETE)["records_left"]
        for _ in range(2)
    )

    assert "a response without a URL" in first[0]
    assert second == first


@pytest.mark.parametrize("how", ["plain", "members", "whole"])
@pytest.mark.parametrize(
    ("old", "new"),
    [(b"\r\nWARC-", b"\nWARC-"), (b"\r\n", b"\n"), (b"WARC/1.0", b"warc/1.0")],
    ids=["mixed", "bare", "small"],
)
def test_heads_with_bare_line_feeds_and_in_lower_case_are_read(tmp_path, old, new, how):
    """Other commands refuse them and name `convert`, which writes them as usual."""
    parts, usual = [], b""
    for number in (1, 2):
        head = b"WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: http://a.example/"
        head += b"%d\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n" % number
        head += (
            b"WARC-Record-ID: <urn:uuid:%d>\r\nContent-Type: text/plain\r\n" % number
        )
        head += b"Content-Length: 300000\r\n\r\n"
        block = b"h\r\n\ni" * 60_000
        parts.append(head.replace(old, new) + block + b"\r\n\r\n".replace(old, new))
        usual += head + block + b"\r\n\r\n"
    path = tmp_path / ("x.warc" if how == "plain" else "x.warc.gz")
    if how == "members":
        path.write_bytes(b"".join(map(gzip.compress, parts)))
    else:
        whole = b"".join(parts)
        path.write_bytes(whole if how == "plain" else gzip.compress(whole))

    said = commands.run("warc", "manifest", path, "-o", tmp_path)
    assert said.returncode == ExitCode.INCOMPLETE
    assert "(try frontier warc convert)" in said.stderr
    convert(path, "-o", tmp_path / "out")

    made = (tmp_path / "out" / "x.warc.gz").read_bytes()
    assert gzip.decompress(made) == usual
