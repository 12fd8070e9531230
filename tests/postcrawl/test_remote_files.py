"""Files on a web server, read by ranges."""

import random
import re

import pytest

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.test_dedupe import blocks, run, state
from tests.rawsite import RawSite, answer, redirect


class Server:
    """The files of a directory, with ranges."""

    def __init__(self, directory):
        self.directory = directory
        self.ranges = "bytes"
        self.asked = []
        self.cut = 0
        """Bytes that are missing of each answer."""
        self.tag = "first"
        self._site = RawSite({}, answer=self._answer)
        self.close = self._site.close

    def url(self, name):
        return self._site.url(f"/{name}")

    def _answer(self, path, asked):
        if path == "/away":
            return redirect("file:///etc/hostname")
        place = self.directory / path.strip("/")
        if not place.exists():
            return answer(status="404 None")
        data = place.read_bytes()
        head = [f'ETag: "{self.tag}"', "Connection: close"]
        head += [f"Accept-Ranges: {self.ranges}"] if self.ranges else []
        is_ranged = self.ranges == "bytes"
        found = re.search(rb"(?i)range: *bytes=(\d+)-(\d+)", asked)
        status = "200 OK"
        if found and is_ranged:
            start, end = int(found[1]), int(found[2]) + 1
            self.asked.append((path, start, end))
            head += [f"Content-Range: bytes {start}-{end - 1}/{len(data)}"]
            data, status = data[start:end], "206 Partial Content"
        head += [f"Content-Length: {len(data)}"]
        body = b"" if asked.startswith(b"HEAD") else data[: len(data) - self.cut]
        text = "\r\n".join([f"HTTP/1.1 {status}", *head, "", ""])
        return text.encode() + body


@pytest.fixture
def server(before):
    server = Server(before)
    yield server
    server.close()


@pytest.fixture
def urls(server, before):
    return [server.url(path.name) for path in sorted(before.iterdir())]


def test_files_of_a_web_server_are_deduplicated_verified_and_restored(
    before, urls, tmp_path
):
    here, out, again = (tmp_path / name for name in ("here", "out", "again"))
    run("dedupe", before, "-o", here)

    done = run("dedupe", *urls, "-o", out)

    assert done["replaced"] == 3
    assert state(out) == state(here)
    run("verify", before, out)
    run("restore", out / "two.warc.gz", "-o", again, "--originals", urls[0])
    assert blocks(again) == blocks(before)[3:]


def test_a_file_that_was_replaced_is_not_the_one_of_the_manifest(
    server, urls, before, tmp_path
):
    """The server's tag says so, of equal size and ends."""
    place = before / "two.warc.gz"
    run("manifest", *urls, "-o", tmp_path / "m")
    run("plan", tmp_path / "m")
    server.tag = "another"

    done = run(
        "apply", tmp_path / "m", "-o", tmp_path / "out", code=ExitCode.INCOMPLETE
    )

    assert all("changed" in reason for reason in done["files_left"])
    assert len(done["files_left"]) == 2
    assert place.exists()


NO_RANGES = "its server gives no ranges, and without them it is not read"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ranges": "none"}, NO_RANGES),
        ({"ranges": ""}, NO_RANGES),
        ({"cut": 7}, ""),
        ({"url": lambda name: f"http://127.0.0.1:1/{name}"}, ""),
    ],
    ids=["refused", "ignored", "cut", "unreachable"],
)
def test_what_a_server_does_not_give_is_named(
    server, new_warc, tmp_path, change, reason
):
    warc = new_warc("long.warc.gz")
    warc.response("http://a.example/", 1, random.Random(6).randbytes(100_000))
    vars(server).update(change)
    url = server.url(warc.close().name)

    done = run("manifest", url, "-o", tmp_path / "m", code=ExitCode.INCOMPLETE)

    assert (done["files"], done["records"]) == (0, 0)
    (told,) = done["files_left"]
    assert told.startswith(f"{url}: {reason}")
    assert "no such file" not in told


def test_remote_files_are_not_rewritten_in_place(urls, tmp_path):
    run("manifest", *urls, "-o", tmp_path / "m")
    run("plan", tmp_path / "m")

    done = run("apply", tmp_path / "m", "--in-place", code=ExitCode.INCOMPLETE)

    assert done["written"] == 0
    assert all("a file elsewhere is only read" in told for told in done["files_left"])


def test_missing_remote_file_or_url_with_password_is_refused(server, tmp_path):
    words = ["warc", "manifest", "-o", tmp_path / "m"]
    done = commands.run(*words, server.url("none.warc.gz"))
    assert done.returncode == ExitCode.NOT_FOUND
    assert "there is no such file" in done.stderr
    for url in ("http://user:word@127.0.0.1/one.warc.gz", "http://127.0.0.1/a/../b"):
        done = commands.run(*words, url)
        assert done.returncode == ExitCode.USAGE
        assert "word@" not in done.stderr
    assert not (tmp_path / "m").exists()
