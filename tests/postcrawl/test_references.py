"""What revisits refer to is there after a takedown and after a deduplication.

Collections of others have every kind of reference: by URL and date, by record id, by
URL or digest alone, and to other revisits. `Judge` reads them with FastWARC and knows
nothing of ours.
"""

import gzip
import random
import shutil

import pytest
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import chunked, run, sha1, state
from tests.warc.judges import records_in

A, B, C = "http://a.example/", "http://b.example/", "http://c.example/"
PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
WAYS = ("date", "id", "url", "digest", "all")
"""What a revisit names its original by; with all of them, or its digest alone."""


class Made:
    """A collection that is written."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir()
        self._seconds = 0

    def capture(
        self,
        url,
        payload,
        of=None,
        way="date",
        name="1.warc.gz",
        *,
        chunks=False,
        digest=None,
    ):
        """A response, or a revisit of the capture *of*, which it names in one *way*."""
        self._seconds += 1
        headers = {
            "WARC-Target-URI": url,
            "WARC-Date": date(self._seconds),
            "WARC-Record-ID": f"<urn:uuid:00000000-0000-4000-8000-{self._seconds:012}>",
            "WARC-Payload-Digest": digest or sha1(payload),
        }
        said = dict(headers)
        if of:
            said["WARC-Profile"] = PROFILE
            if way in {"date", "all"}:
                said["WARC-Refers-To-Date"] = of["WARC-Date"]
            if way in {"date", "url", "all"}:
                said["WARC-Refers-To-Target-URI"] = of["WARC-Target-URI"]
            if way in {"id", "all"}:
                said["WARC-Refers-To"] = of["WARC-Record-ID"]
        said["WARC-Type"] = "revisit" if of else "response"
        coded = b"Transfer-Encoding: chunked\r\n" if chunks else b""
        block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%b\r\n" % coded
        block += b"" if of else chunked(payload, 100) if chunks else payload
        said["Content-Type"] = "application/http; msgtype=response"
        said["Content-Length"] = str(len(block))
        head = "".join(f"{key}: {value}\r\n" for key, value in said.items())
        record = f"WARC/1.0\r\n{head}\r\n".encode() + block + b"\r\n\r\n"
        with (self.directory / name).open("ab") as file:
            file.write(gzip.compress(record) if name.endswith(".gz") else record)
        return headers


class Judge:
    """The captures in a directory, and the payload that each has or refers to."""

    def __init__(self, directory):
        found = (*directory.glob("*.warc"), *directory.glob("*.warc.gz"))
        self.captures = [
            (headers, block.partition(b"\r\n\r\n")[2])
            for headers, block in records_in(sorted(found))
            if headers["WARC-Type"] in {"response", "revisit"}
        ]

    def payloads(self):
        """By URL and date of each capture: the ways to a payload, and the payload."""
        return {
            (one["WARC-Target-URI"], one["WARC-Date"]): self._ways(one, body, 40)
            for one, body in self.captures
        }

    def _ways(self, one, body, depth):
        if one["WARC-Type"] == "response":
            return {"itself": body}
        url, second, record_id = (
            one.get(f"WARC-Refers-To{name}") for name in ("-Target-URI", "-Date", "")
        )
        ways = {}
        if record_id:
            meant = [c for c in self.captures if c[0]["WARC-Record-ID"] == record_id]
            ways["id"] = self._first(one, meant, depth)
        if url and second:
            meant = [
                c
                for c in self.captures
                if (c[0]["WARC-Target-URI"], c[0]["WARC-Date"]) == (url, second)
            ]
            ways["date"] = self._first(one, meant, depth)
        if not ways:
            own = url or one["WARC-Target-URI"]
            some = [c for c in self.captures if c[0]["WARC-Type"] == "response"]
            same = [c for c in some if c[0]["WARC-Target-URI"] == own]
            ways["same URL"] = self._first(one, same, depth)
            ways["digest"] = self._first(one, some, depth)
        return {way: found for way, found in ways.items() if found is not None}

    def _first(self, one, meant, depth):
        for headers, body in meant if depth else ():
            for found in self._ways(headers, body, depth - 1).values():
                if sha1(found) == one["WARC-Payload-Digest"]:
                    return found
        return None


def lost(before, after, left=""):
    """What each capture had before and has no more, but those of the URL that *left*.

    A way that led to the payload leads there still, unless the capture has it itself.
    """
    now, found = Judge(after).payloads(), {}
    for at, ways in Judge(before).payloads().items():
        has = now.get(at, {})
        if at[0] == left or not ways:
            continue
        (payload,) = set(ways.values())
        kept = {way for way, body in has.items() if body == payload}
        is_kept = kept if "itself" in ways else kept >= set(ways)
        if "itself" not in kept and not is_kept:
            found[at] = set(ways), kept
    return found


def collection_of(seed, directory):
    """Some captures of a few URLs and payloads, by every kind of reference."""
    drawn, made, known = random.Random(seed), Made(directory), {}
    for _ in range(30):
        url = drawn.choice([A, B, C, f"{A}x", f"{B}y"])
        payload = PAGE + b"%d" % drawn.randrange(8)
        others = known.setdefault(payload, [])
        of = drawn.choice([*others, None])
        way = drawn.choice(WAYS)
        name = f"{drawn.randrange(3)}.warc{drawn.choice(['', '.gz'])}"
        others.append(made.capture(url, payload, of, way, name))
    return made.directory


def removed(directory, *words, code=ExitCode.OK):
    return run("remove", directory, *words, "--yes", code=code)


def test_revisit_chain_is_kept_if_its_last_revisit_cannot_be_restored(tmp_path):
    made = Made(tmp_path / "files")
    first = made.capture(A, PAGE)
    second = made.capture(A, PAGE, first, "id")
    made.capture(B, OTHER, second, "id")  # of another digest than it refers to
    files = made.directory

    done = removed(files, "--url", A, code=ExitCode.INCOMPLETE)

    assert done["records"] == []
    assert sorted(text.split(" stays")[0] for text in done["records_left"][-2:]) == [
        f"{A} of {date(1)}",
        f"{A} of {date(2)}",
    ]


def test_a_body_has_chunks_where_its_head_says_so(tmp_path):
    """The original and its revisit differ: of one answer came in chunks."""
    made = Made(tmp_path / "before")
    first = made.capture(A, PAGE, chunks=True)
    made.capture(B, PAGE, first)
    made.capture(C, PAGE, first, chunks=True)
    plain = made.capture(A, OTHER)
    made.capture(C, OTHER, plain, chunks=True)
    after = tmp_path / "after"

    done = run("restore", made.directory, "-o", after, code=ExitCode.INCOMPLETE)

    in_chunks = chunked(PAGE, 100)
    assert [body for _, body in Judge(after).captures] == [
        *(in_chunks, PAGE, in_chunks, OTHER, b"")
    ]
    assert "has no chunks, as its head has" in done["records_left"][0]


def by_warcio(directory):
    """What a client gets of each response, by URL; no payload of the others."""
    found = {}
    for path in sorted(directory.glob("*.warc*")):
        with path.open("rb") as file:
            for one in WarcioIterator(file):
                body = one.content_stream().read()
                found[one.rec_headers["WARC-Target-URI"]] = one.rec_type, body
    return found


def test_a_body_in_chunks_is_behind_no_head_without_them(tmp_path):
    """Some tools digest the chunks, as warcio does: no such payload can be read.

    The payload and the digest that the revisit states cannot both be in its response.
    """
    made = Made(tmp_path / "before")
    digest = sha1(chunked(PAGE, 100))
    first = made.capture(A, PAGE, chunks=True, digest=digest)
    made.capture(B, PAGE, first, digest=digest)
    made.capture(C, PAGE, first, chunks=True, digest=digest)
    before, full = made.directory, tmp_path / "full"

    done = run("restore", before, "-o", full, code=ExitCode.INCOMPLETE)

    left = {A: ("response", PAGE), B: ("revisit", b""), C: ("response", PAGE)}
    assert by_warcio(full) == left
    (text,) = done["records_left"]
    assert "its digest is of chunks, and its head says none" in text
    done = removed(before, "--url", A, code=ExitCode.INCOMPLETE)
    assert done["records"] == []
    assert f"{A} of {date(1)} stays" in done["records_left"][-1]
    assert by_warcio(before)[A] == ("response", PAGE)
    assert by_warcio(before)[B] == ("revisit", b"")


def check_seed(seed, tmp_path):
    before = collection_of(seed, tmp_path / f"{seed}")
    less, full, gone, bare = (
        tmp_path / f"{seed}-{name}" for name in ("less", "full", "gone", "bare")
    )
    shutil.copytree(before, gone)
    shutil.copytree(before, bare)

    run("dedupe", before, "-o", less)
    assert lost(before, less) == {}, seed
    assert run("verify", before, less)["faults"] == 0
    run("restore", less, "-o", full)
    assert lost(before, full) == {}, seed
    after = [one for one, _ in Judge(full).captures]
    assert {one["WARC-Type"] for one in after} == {"response"}
    ids = [one["WARC-Record-ID"] for one, _ in Judge(before).captures]
    assert [one["WARC-Record-ID"] for one in after] == ids, seed
    was = Judge(before).payloads()
    url = min(url for url, _ in was)
    removed(gone, "--url", url)
    assert lost(before, gone, url) == {}, seed
    assert not [at for at in Judge(gone).payloads() if at[0] == url]
    payload = min(body for ways in was.values() for body in ways.values())
    removed(bare, "--payload", sha1(payload))
    now = Judge(bare).payloads()
    gone_with_it = {at for at, ways in was.items() if payload in ways.values()}
    assert gone_with_it
    assert set(now) == set(was) - gone_with_it
    assert all(now[at] == was[at] for at in now)


CHAOS = [pytest.param(seed, marks=pytest.mark.chaos) for seed in range(4, 99)]


@pytest.mark.parametrize("seed", [*range(4), *CHAOS])
def test_references_survive_dedupe_restore_and_removal(seed, tmp_path):
    check_seed(seed, tmp_path)


@pytest.mark.parametrize(
    "words", ["remove {} --url " + A + " --yes", "dedupe {} -o out", "verify {} {}"]
)
@pytest.mark.parametrize("given", ["directory", "file"])
def test_a_file_that_is_not_closed_stops_it_and_is_named(
    tmp_path, monkeypatch, words, given
):
    """What a node writes, or was killed at: the payload or a reference is in it."""
    made = Made(tmp_path / "files")
    first = made.capture(A, PAGE)
    made.capture(B, PAGE, first, name="2.warc.gz")
    files = made.directory
    unclosed = files / "2.warc.gz.open"
    (files / "2.warc.gz").rename(unclosed)
    was = state(files)
    monkeypatch.chdir(tmp_path)
    name = str(unclosed if given == "file" else files)

    argv = words.replace("{}", name).split()
    done = commands.run("warc", *argv, "--workers=1")

    assert done.returncode == ExitCode.INCOMPLETE
    assert f"{unclosed} is not closed" in done.stderr
    assert "frontier warc repair" in done.stderr
    assert state(files) == was
    assert not (tmp_path / "out").exists()
