"""Originals behind a CDX server and its replay, over real sockets."""

import gzip
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from frontier.cli import app
from frontier.cli.output import ExitCode
from frontier.errors import ConfigurationError
from tests.cdx_server import cdx_server, reply
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import blocks, chunked, revisits, run, sha1


class Archive:
    """Captures by URL and 14 digits, and how the server is to answer."""

    def __init__(self):
        self.captures = {}
        self.asked = []
        self.root = "/coll/"
        self.fault = None
        self.address = ""

    def add(self, url, second, body, digest=None, mime="text/html"):
        at = "".join(filter(str.isdigit, date(second)))
        self.captures[url, at] = digest or sha1(body), body, mime

    def lines(self, url):
        for (of, at), (digest, _, mime) in self.captures.items():
            if of == url:
                facts = {"url": of, "mime": mime, "status": "200", "digest": digest}
                yield json.dumps({"urlkey": "-", "timestamp": at, **facts})

    def answer(self, path):
        self.asked.append(path)
        parts = urlsplit(path)
        if self.fault and self.fault in path:
            return 503, b"busy"
        if parts.path == "/coll/cdx":
            (url,) = parse_qs(parts.query)["url"]
            return 200, "\n".join(self.lines(url)).encode()
        if path.startswith(self.root):
            at, _, url = path.removeprefix(self.root).partition("id_/")
            if (url, at) in self.captures:
                return 200, self.captures[url, at][1]
        return 404, b"nothing"


@pytest.fixture
def archive():
    made = Archive()
    with cdx_server(lambda asked: reply(asked, *made.answer(asked.path))) as server:
        made.address = server.address
        yield made


@pytest.fixture
def alone(before, tmp_path):
    """The second file of a deduplicated collection; the first is gone."""
    out = tmp_path / "after"
    run("dedupe", before, "-o", out)
    (out / "one.warc.gz").unlink()
    return out / "two.warc.gz"


@pytest.fixture
def filled(archive):
    archive.add("http://a.example/", 1, PAGE)
    archive.add("http://a.example/", 3, OTHER)
    archive.add("http://a.example/other", 2, OTHER)
    archive.add("http://a.example/other", 4, b"", sha1(OTHER), "warc/revisit")
    return archive


def test_originals_come_from_a_replay_byte_for_byte(before, alone, filled, tmp_path):
    again = tmp_path / "again"

    done = run("restore", alone, "-o", again, "--originals", filled.address)

    assert (done["replaced"], done["records_left"]) == (3, [])
    assert blocks(again) == blocks(before)[3:]
    assert len(filled.asked) == 6


def test_a_replay_may_stand_elsewhere(before, alone, filled, tmp_path):
    again, filled.root = tmp_path / "again", "/web/"
    root = filled.address.replace("/coll/cdx", "/web/")

    done = run(
        *("restore", alone, "-o", again),
        *("--originals", filled.address, "--replay", root),
    )

    assert done["replaced"] == 3
    assert blocks(again) == blocks(before)[3:]


def test_files_are_looked_in_first(before, alone, filled, tmp_path):
    again = tmp_path / "again"

    done = run(
        *("restore", alone, "-o", again),
        *("--originals", filled.address, "--originals", before / "one.warc.gz"),
    )

    assert (done["replaced"], filled.asked) == (3, [])


def test_another_payload_is_not_used(alone, archive, tmp_path):
    """Whatever the server says of its digest."""
    archive.add("http://a.example/", 1, OTHER, sha1(PAGE))

    done = run(
        *("restore", alone, "-o", tmp_path / "again"),
        *("--originals", archive.address),
        code=ExitCode.INCOMPLETE,
    )

    assert done["replaced"] == 0
    assert len(revisits(tmp_path / "again")) == len(done["records_left"]) == 3
    for reason in done["records_left"]:
        assert "has no capture with its payload" in reason


@pytest.mark.parametrize("fault", ["cdx", "id_"])
def test_a_server_that_fails_is_named_and_no_answer(alone, filled, tmp_path, fault):
    filled.fault = fault
    words = ("restore", alone, "-o", tmp_path / "again", "--originals", filled.address)

    done = run(*words, code=ExitCode.INCOMPLETE)

    assert (done["replaced"], len(done["records_left"])) == (0, 3)
    assert "127.0.0.1" in done["records_left"][0]
    # With the server again it goes on.
    filled.fault = None
    assert run(*words)["replaced"] == 3
    assert revisits(tmp_path / "again") == {}


@pytest.fixture
def copied(new_warc, tmp_path):
    """Make the second of two files with one payload, deduplicated, and blocks of it."""

    def make(body, headers):
        for name, second in (("one", 1), ("two", 2)):
            warc = new_warc(f"{name}.warc.gz")
            warc.response("http://a.example/", second, body, headers=headers)
            warc.close()
        before, out = tmp_path / "before", tmp_path / "after"
        assert run("dedupe", before, "-o", out)["replaced"] == 1
        return out / "two.warc.gz", blocks(before)[2:]

    return make


def test_a_body_that_had_chunks_stays_a_revisit(copied, archive, tmp_path):
    warc, _ = copied(chunked(PAGE, 100), [("Transfer-Encoding", "chunked")])
    archive.add("http://a.example/", 1, PAGE)

    done = run(
        *("restore", warc, "-o", tmp_path / "again", "--originals", archive.address),
        code=ExitCode.INCOMPLETE,
    )

    assert "a replay has no chunks, as its head says" in done["records_left"][0]


def test_content_codings_are_kept(copied, archive, tmp_path):
    coded = gzip.compress(PAGE, mtime=0)
    warc, was = copied(coded, [("Content-Encoding", "gzip")])
    archive.add("http://a.example/", 1, coded)
    again = tmp_path / "again"

    done = run("restore", warc, "-o", again, "--originals", archive.address)

    assert done["replaced"] == 1
    assert blocks(again) == was


def test_a_revisit_without_a_head_stays(new_warc, archive, tmp_path):
    """A replay gives none either."""
    warc = new_warc("one.warc.gz")
    warc.revisit("http://b.example/", 9, sha1(PAGE), "http://a.example/", 1)
    warc.close()
    archive.add("http://a.example/", 1, PAGE)

    done = run(
        *("restore", tmp_path / "before", "-o", tmp_path / "again"),
        *("--originals", archive.address),
        code=ExitCode.INCOMPLETE,
    )

    assert "it has no HTTP head" in done["records_left"][0]


@pytest.mark.parametrize(
    "words",
    [
        ["--originals", "http://"],
        ["--replay", "http://a.example/web"],
        ["--originals", "http://a.example/cdx", "--replay", "web"],
        ["--originals", "http://a.example/cdx", "--with-originals"],
    ],
)
def test_addresses_that_make_no_sense_are_refused(before, tmp_path, words):
    argv = ["warc", "restore", before, "-o", tmp_path / "again", *words]

    done = CliRunner().invoke(app, list(map(str, argv)))

    assert isinstance(done.exception, ConfigurationError), done.output
