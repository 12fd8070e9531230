"""``frontier warc list`` and ``show``, on files of ours and of anybody."""

import gzip
import json
import os
from pathlib import Path

import pytest

from frontier.cli.output import ExitCode
from frontier.collection.captures_of import captures_of
from frontier.collection.sources import Source
from frontier.dedupe.digest import digest_of
from frontier.model import Original
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from frontier.warc.records import MAX_HEAD
from tests.harness import commands
from tests.warc.samples import NOON, an_exchange

HEAD = b"HTTP/1.1 %d x\r\nContent-Type: %b\r\n%b\r\n"
PACKED = gzip.compress("<p>caf\xe9</p>".encode("latin-1"), mtime=0)
EVIL = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-A: \x1b[2Jx\r\n\r\n"


def run(*words):
    """Run ``frontier warc`` here; return its code, and what it said."""
    done = commands.run("warc", *words)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def warcs(tmp_path):
    directory = tmp_path / "warcs"
    directory.mkdir()
    writer = WarcWriter(WarcConfig(directory, "c", "n", metadata=True), lambda: NOON)
    gz = b"Content-Encoding: gzip\r\n"
    for number, changes in enumerate(
        [
            {"body": b"<p>one</p>"},
            {
                "body": PACKED,
                "response_head": HEAD % (404, b"text/html; charset=latin-1", gz),
                "status": 404,
            },
            {
                "body": b"\x89PNG\r\n\x1a\n\0",
                "response_head": HEAD % (200, b"image/png", b""),
            },
            {
                "body": b"a\x1b]0;owned\x07b\rc\x9b31m",
                "response_head": EVIL,
                "url": "http://evil.example/",
            },
        ]
    ):
        exchange = an_exchange(number, **changes, fetch_ms=7)
        writer.append(exchange, digest_of(exchange.response_body))
    again = an_exchange(9, b"<p>one</p>", url="http://example.com/0")
    original = Original("http://example.com/0", "2026-01-01T00:00:00Z", "c", 1)
    writer.append(again, digest_of(again.response_body), original)
    writer.close()
    return directory


def listed(*words):
    code, out, err = run("list", *words, "--json")
    return code, json.loads(out), err


def test_captures_are_listed_and_chosen(warcs):
    code, found, _ = listed(warcs)

    assert code == ExitCode.OK
    assert found["complete"] is True
    assert [
        (each["url"], each["status"], each["mime"], each["type"])
        for each in found["captures"]
    ] == [
        ("http://example.com/0", 200, "text/html", "response"),
        ("http://example.com/1", 404, "text/html", "response"),
        ("http://example.com/2", 200, "image/png", "response"),
        ("http://evil.example/", 200, "text/plain", "response"),
        ("http://example.com/0", 200, "text/html", "revisit"),
    ]
    for words, urls in {
        ("--status", "4xx"): ["/1"],
        ("--status", "404,200", "--mime", "text/*"): ["/0", "/1", "/", "/0"],
        ("--url", "http://example.com/0"): ["/0", "/0"],
        ("--url", "http://example.com/*", "--mime", "image/png"): ["/2"],
        ("--url", "http://none.example/"): [],
    }.items():
        some = listed(warcs, *words)[1]["captures"]
        assert [each["url"][-len(u) :] for each, u in zip(some, urls, strict=True)] == (
            urls
        )
    text = run("list", warcs)[1].splitlines()
    assert len(text) == 5
    assert text[1].split()[1:4] == ["404", "text/html", "response"]


def test_a_head_that_is_too_long_for_others_is_read_as_a_head(tmp_path):
    long = b"X: " + b"x" * MAX_HEAD + b"\r\n"
    exchange = an_exchange(response_head=HEAD % (200, b"text/html", long))
    writer = WarcWriter(WarcConfig(tmp_path, "c", "n"), lambda: NOON)
    writer.append(exchange, digest_of(exchange.response_body))
    writer.close()

    (found,) = listed(tmp_path)[1]["captures"]
    assert (found["status"], found["mime"]) == (200, "text/html")
    (path,) = tmp_path.glob("*.warc.gz")
    with path.open("rb") as file:
        source = Source(path.name, str(path), "c")
        (known,) = captures_of(source, file, lambda *_: None, "sha1")
    assert known.digest == digest_of(exchange.response_body, "sha1")


def test_show_finds_a_capture_by_url_record_id_and_offset(warcs):
    one = listed(warcs, "--status", "404")[1]["captures"][0]
    ways = [
        (warcs, "http://example.com/1"),
        (warcs, one["record_id"]),
        (warcs, one["record_id"].strip("<>")),
        (f"{one['file']}:{one['offset']}",),
        (one["file"], "http://example.com/1#part"),
    ]

    answers = {run("show", *words) for words in ways}

    ((code, out, err),) = answers
    assert (code, err) == (ExitCode.OK, "")
    lines = out.splitlines()
    assert lines[0] == "WARC/1.1"
    assert "WARC-Type: response" in lines
    assert "HTTP/1.1 404 x" in lines
    assert lines[-1] == "<p>caf\xe9</p>"  # without its codings


def test_show_prints_the_last_of_several_captures_and_their_count(warcs):
    code, out, err = run("show", warcs, "http://example.com/0")

    assert code == ExitCode.OK
    assert "WARC-Type: revisit" in out
    assert out.splitlines()[-1] == "(no body)"
    assert err.startswith("the last of 2")


def test_output_has_no_terminal_control_characters(warcs):
    for words in (("show", warcs, "http://evil.example/"), ("list", warcs)):
        _, out, _ = run(*words)
        text = out
        assert all(c.isprintable() or c in "\n\t" for c in text)
    assert "owned" in run("show", warcs, "http://evil.example/")[1]
    png = run("show", warcs, "http://example.com/2")[1]
    assert "(9 bytes of image/png; see --raw)" in png


def test_raw_are_the_bytes_as_they_are(warcs, tmp_path):
    words = ("warc", "show", warcs, "http://example.com/2", "--raw")
    with (tmp_path / "raw").open("wb") as file:
        commands.run(*words, stdout=file)
    out = (tmp_path / "raw").read_bytes()

    assert out.startswith(b"WARC/1.1\r\n")
    assert out.endswith(b"\r\n\r\n\x89PNG\r\n\x1a\n\0\r\n\r\n")


@pytest.mark.parametrize("packed", [True, False])
def test_a_file_of_another_tool_is_read_too(tmp_path, packed):
    path = tmp_path / ("w.warc.gz" if packed else "w.warc")
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
    head += b"Content-Type: text/plain\r\n\r\n"
    made = []
    for number in range(3):
        block = head + b"3\r\nabc\r\n1\r\n%d\r\n0\r\n\r\n" % number
        made.append(
            b"WARC/1.0\r\nwarc-type: response\r\nwarc-record-id: <urn:uuid:%d>\r\n"
            b"warc-target-uri: <http://a.example/%d>\r\n"
            b"warc-date: 2020-01-01T00:00:00Z\r\ncontent-length: %d\r\n"
            b"content-type: application/http;msgtype=response\r\n\r\n%b\r\n\r\n"
            % (number, number, len(block), block)
        )
    path.write_bytes(b"".join(gzip.compress(r) if packed else r for r in made))

    code, found, _ = listed(path)
    assert code == ExitCode.OK
    assert len(found["captures"]) == 3
    last = found["captures"][2]
    for words in ((path, "http://a.example/2"), (f"{path}:{last['offset']}",)):
        code, out, err = run("show", *words)
        assert (code, err) == (ExitCode.OK, "")
        assert out.splitlines()[-1] == "abc2"


def test_unreadable_file_is_reported_and_other_captures_are_listed(warcs):
    (whole,) = warcs.iterdir()
    data = whole.read_bytes()
    (warcs / "cut.warc.gz").write_bytes(data[:-20])
    (warcs / "none.warc.gz").write_bytes(b"\x1f\x8bnothing")
    (warcs / "empty.warc.gz").write_bytes(b"")
    os.link(whole, warcs / "live.warc.gz.open")

    code, found, err = listed(warcs)

    assert code == ExitCode.INCOMPLETE
    assert found["complete"] is False
    assert len(found["captures"]) >= 9
    lines = err.splitlines()
    assert len(lines) == 3
    assert sum("cut.warc.gz" in each or "none.warc.gz" in each for each in lines) == 2
    assert "is not closed" in "".join(lines)
    assert all(each.startswith("frontier: ") for each in lines)
    code, found, err = listed(warcs / "live.warc.gz.open")
    assert (code, found["captures"]) == (ExitCode.INCOMPLETE, [])
    assert found["complete"] is False
    assert err.startswith("frontier: ")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list", "{}", "--status", "abc"), ExitCode.USAGE),
        (("show", "{}"), ExitCode.USAGE),
        (("show", "{}", "http://nosuch.example/"), ExitCode.NOT_FOUND),
        (("show", "nosuch", "http://nosuch.example/"), ExitCode.NOT_FOUND),
        (("show", "{}/c:7"), ExitCode.NOT_FOUND),
    ],
)
def test_error_is_one_line_with_its_exit_code(warcs, words, code):
    found, out, err = run(*(each.format(warcs) for each in words))

    assert (found, out) == (code, "")
    assert len(err.splitlines()) == 1


def test_a_wacz_is_named_with_what_to_do(tmp_path):
    (tmp_path / "a.wacz").write_bytes(b"PK\x03\x04")
    _, _, err = run("show", f"{tmp_path}/a.wacz:0")

    assert "a.wacz: a zip file (unzip a WACZ" in err


@pytest.mark.parametrize("offset", [7, 10**9])
def test_no_record_at_that_place(warcs, offset):
    (path,) = Path(warcs).iterdir()

    code, out, err = run("show", f"{path}:{offset}")

    assert (code, out) == (ExitCode.INCOMPLETE, "")
    assert len(err.splitlines()) == 1
