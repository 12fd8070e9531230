"""What the files of other crawlers and of other archives are like, byte for byte.

The cases were found with the test data of warcio, pywb, JHOVE, warc-specifications,
NetarchiveSuite and others; the same bytes are made here.
"""

import gzip
import re
from uuid import UUID

import pyarrow.parquet as pq
import pytest

from frontier.cli.output import ExitCode
from frontier.postcrawl.manifest import Options, make, place_of
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import blocks, run

HTTP = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"


def record(url, second, block, *, kind="response", end=b"\r\n\r\n", **more):
    """A record as another tool has written it, with *more* headers."""
    headers = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{UUID(int=second)}>",
        "WARC-Date": date(second),
        "WARC-Target-URI": url,
        "Content-Type": "application/http; msgtype=response",
    }
    headers |= {name.replace("_", "-"): text for name, text in more.items()}
    headers |= {"Content-Length": str(len(block))}
    top = "".join(f"{name}: {text}\r\n" for name, text in headers.items())
    return f"WARC/1.0\r\n{top}\r\n".encode() + block + end


def rows(path, directory):
    """What a manifest says of *path*."""
    make(path, directory, Options())
    return pq.read_table(place_of(path, directory)).to_pylist()


def response(url, second, body=PAGE, **more):
    return record(url, second, HTTP + body, **more)


def written(directory, name, *records):
    """A file of *records*, each a gzip member if its name says so."""
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = name.endswith(".gz")
    path.write_bytes(
        b"".join(gzip.compress(one, mtime=0) if packed else one for one in records)
    )
    return path


def undone(before, tmp_path):
    """How many records and revisits `verify` finds without a fault, there and back."""
    out, again = tmp_path / "out", tmp_path / "again"
    run("dedupe", before, "-o", out)
    proof = run("verify", before, out)
    run("restore", out, "-o", again)
    assert run("verify", before, again)["records"] == proof["records"]
    return proof["records"], proof["revisits"]


def test_the_first_part_of_a_record_in_parts_is_neither_copy_nor_original(tmp_path):
    """Its continuation names it by its id, and the payload is in both."""
    first = "<urn:uuid:00000000-0000-0000-0000-000000000002>"
    written(
        tmp_path / "before",
        "one.warc.gz",
        response("http://a.example/1", 1, WARC_Segment_Number="1"),
        response("http://a.example/2", 2, WARC_Segment_Number="1"),
        record(
            "http://a.example/2",
            3,
            b"and more",
            kind="continuation",
            WARC_Segment_Number="2",
            WARC_Segment_Origin_ID=first,
        ),
        response("http://a.example/3", 4),
    )
    done = run("dedupe", tmp_path / "before", "-o", tmp_path / "out")

    assert (done["records"], done["copies"]) == (3, 0)


@pytest.mark.parametrize(
    "url",
    ["http://a.example/a b", "http://a.example/\xfc", "http://b\xfccher.example/"],
)
def test_a_url_that_is_no_uri_is_found_again(tmp_path, url):
    """A revisit names its original as a header may have it."""
    before = tmp_path / "before"
    written(before, "one.warc.gz", response(url, 1), response("http://a.example/c", 2))
    assert undone(before, tmp_path) == (2, 1)
    assert blocks(tmp_path / "again") == blocks(before)

    done = run("remove", tmp_path / "out" / "one.warc.gz", "--url", url, "--yes")
    assert (len(done["records"]), done["dependent"]) == (1, 1)


def _own(second):
    return (
        response(f"http://a.example/{second}", second, OTHER + b"%d" % second),
        response(f"http://a.example/{second}b", second + 1, OTHER + b"b%d" % second),
    )


@pytest.mark.parametrize("name", ["one.warc", "one.warc.gz"])
def test_a_header_may_go_on_in_the_next_line(tmp_path, name):
    """WARC 1.0, section 4: a value is folded onto lines that begin with a space."""
    folded = response("http://a.example/long", 2)
    for was in (b"WARC-Target-URI:", b"Content-Length:", b"WARC-Type:"):
        folded = folded.replace(was + b" ", was + b"\r\n\t ", 1)
    before = tmp_path / "before"
    path = written(before, name, response("http://a.example/", 1), folded)
    found = [(one["url"], one["type"]) for one in rows(path, tmp_path)]
    assert found[1] == ("http://a.example/long", "response")

    assert undone(before, tmp_path) == (2, 1)


def test_a_file_that_is_there_packed_and_not_has_two_indexes(tmp_path):
    before, out = tmp_path / "before", tmp_path / "out"
    written(before, "x.warc", response("http://a.example/1", 1), *_own(20))
    written(before, "x.warc.gz", response("http://a.example/2", 2), *_own(30))
    run("dedupe", before, "-o", out)

    for name in ("x.warc", "x.warc.gz"):
        lines = (out / f"{name}.cdxj").read_text().splitlines()
        assert len(lines) == 3
        assert all(f'"filename": "{name}"' in line for line in lines)
    assert not (out / "x.cdxj").exists()


def test_server_not_modified_revisit_is_reported_as_of_a_304(tmp_path):
    """Heritrix writes the profile of WARC 1.0."""
    before = tmp_path / "before"
    written(
        before,
        "one.warc.gz",
        response("http://a.example/", 1),
        record(
            "http://a.example/",
            2,
            b"HTTP/1.1 304 Not Modified\r\n\r\n",
            kind="revisit",
            WARC_Profile="http://netpreserve.org/warc/1.0/revisit/server-not-modified",
            WARC_Refers_To_Target_URI="http://a.example/",
            WARC_Refers_To_Date=date(1),
        ),
    )
    done = run("restore", before, "-o", tmp_path / "out", code=ExitCode.INCOMPLETE)

    assert "it is of a 304" in done["records_left"][0]


ODD_ENDS = [b"", b"\r\n", b"\n", b"\n\n", b"\n\r\n\r\n", b"\r\n" * 5]


def _with_ends(end):
    return (
        response("http://a.example/", 1, end=end),
        record("http://a.example/", 2, b"a: b", kind="metadata", end=end),
        response("http://a.example/c", 3, end=end),
        response("http://a.example/d", 4, OTHER, end=end),
    )


@pytest.mark.parametrize("name", ["one.warc", "one.warc.gz"])
@pytest.mark.parametrize("end", ODD_ENDS)
def test_other_line_ends_behind_a_record(tmp_path, name, end):
    """Heritrix has written one, IA's extractor three, pywb's examples have none.

    What is not changed is copied with them.
    """
    before = tmp_path / "before"
    records = _with_ends(end)
    path = written(before, name, *records)
    assert undone(before, tmp_path) == (4, 1)
    assert blocks(tmp_path / "again") == blocks(before)
    old, new = path.read_bytes(), (tmp_path / "out" / name).read_bytes()
    packed = name.endswith(".gz")
    first, last = (
        b"".join(gzip.compress(one, mtime=0) if packed else one for one in some)
        for some in (records[:2], records[3:])
    )
    assert new.startswith(first)
    assert new.endswith(last)
    assert old.startswith(first)


@pytest.mark.parametrize("name", ["one.warc", "one.warc.gz"])
@pytest.mark.parametrize(
    "end", [b"\r\nX\r\n", b"and more\r\n\r\n", b"\0", b"\r\n" * 100]
)
def test_wrong_bytes_behind_a_record_are_reported_as_damage(tmp_path, name, end):
    """A length that is too small is told, and the file is left."""
    path = written(
        tmp_path / "before",
        name,
        response("http://a.example/", 1, end=end),
        response("http://a.example/c", 2),
    )
    was = path.read_bytes()
    out = tmp_path / "out"
    done = run("dedupe", path, "-o", out, code=ExitCode.INCOMPLETE)

    assert done["written"] == 0
    assert re.search(r"says \d+ bytes.* at byte 0$", done["faults"][0])
    assert path.read_bytes() == was


def test_line_ends_in_a_gzip_member_of_the_next_record(tmp_path):
    """Then a record is no member, and the file is read as one that shares them."""
    one, two = (response(f"http://a.example/{at}", at) for at in (1, 2))
    parts = [one[:-4], b"\r\n\r\n" + two[:-4], b"\r\n\r\n"]
    path = written(tmp_path / "before", "one.warc.gz", *parts)

    assert [row["url"] for row in rows(path, tmp_path)] == [
        "http://a.example/1",
        "http://a.example/2",
    ]
    run("convert", path, "-o", tmp_path / "out")
    assert len(blocks(tmp_path / "out")) == 2


def _dated(text):
    return response("http://a.example/odd", 3, WARC_Date=text)


@pytest.mark.parametrize(
    "text", ["2008-10-294T05:21:46-0700", "2020-13-01T00:00:00Z", "2016-01", ""]
)
def test_a_date_that_cannot_be_read_keeps_no_other_record(tmp_path, text):
    """ClueWeb09 has such; the record is neither copy nor original, and is named."""
    before, out = tmp_path / "before", tmp_path / "out"
    odd = _dated(text)
    path = written(
        before,
        "one.warc.gz",
        odd,
        response("http://a.example/1", 1),
        response("http://a.example/2", 2),
    )
    read = run("manifest", path, "-o", tmp_path / "m", code=ExitCode.INCOMPLETE)
    assert read["files_left"] == []
    named = f"without a UTC date to the second: 1, as at byte 0: {text!r}"
    assert named in read["records_left"][0]

    done = run("dedupe", before, "-o", out, code=ExitCode.INCOMPLETE)

    assert (done["written"], done["copies"], done["undated"]) == (1, 1, 1)
    assert done["files_left"] == []
    assert named in done["records_left"][0]
    assert (out / path.name).read_bytes().startswith(gzip.compress(odd, mtime=0))
    assert run("verify", before, out)["faults"] == 0
    index = (out / "one.cdxj").read_text()
    keys = [line.split()[0] for line in index.splitlines()]
    # A month stands for its beginning: that finds it, but not what a revisit names.
    of_month = ["example,a)/odd"] * (text == "2016-01")
    assert keys == ["example,a)/1", "example,a)/2", *of_month]
    run("restore", out, "-o", tmp_path / "again", code=ExitCode.INCOMPLETE)
    assert blocks(tmp_path / "again") == blocks(before)
    assert run("verify", before, tmp_path / "again")["faults"] == 0


@pytest.mark.parametrize("second", [0, 3])
def test_a_date_of_14_digits_is_one(tmp_path, second):
    """It is the original, or the copy, and stays spelled as it is."""
    before, out = tmp_path / "before", tmp_path / "out"
    digits = f"202001010000{second:02}"
    other = response("http://a.example/1", 1, WARC_Date="2020-01-01T00:00:01Z")
    written(before, "one.warc.gz", _dated(digits), other)
    assert undone(before, tmp_path) == (2, 1)
    assert blocks(tmp_path / "again") == blocks(before)
    found = rows(out / "one.warc.gz", tmp_path)
    made = next(row for row in found if row["refers_to_date"])
    first = "2020-01-01T00:00:00Z" if not second else "2020-01-01T00:00:01Z"
    assert made["refers_to_date"] == first
    assert f" {digits} " in (out / "one.cdxj").read_text()
    packed = (out / "one.warc.gz").read_bytes()
    assert f"WARC-Date: {digits}\r\n".encode() in b"".join(
        gzip.decompress(part) for part in [packed]
    )
    words = ["remove", out / "one.warc.gz", "--url", "http://a.example/odd"]
    found = run(*words, code=ExitCode.USAGE)
    assert len(found["records"]) == 1


BARE = HTTP.replace(b"\r\n", b"\n")
ODD = b"HTTP/2  200\r\nContent-Type : text/html\r\n\r\n"


@pytest.mark.parametrize("head", [HTTP, BARE, ODD])
@pytest.mark.parametrize("typed", [{"Content-Type": ""}, {"WARC-Type": "Response"}])
def test_a_response_may_have_no_type_and_another_head(tmp_path, head, typed):
    """Its head was taken for a part of the payload, or its status was not read."""
    before, out = tmp_path / "before", tmp_path / "out"
    page = head + PAGE + b"\r\n\r\n" + OTHER
    made = [record(f"http://a.example/{n}", n, page, **typed) for n in (1, 2)]
    written(before, "one.warc.gz", *made)

    assert undone(before, tmp_path) == (2, 1)
    assert run("verify", out, tmp_path / "again")["restored"] == 1
    assert blocks(tmp_path / "again") == blocks(before)
    lines = (tmp_path / "again" / "one.cdxj").read_text().splitlines()
    assert ['"text/html", "status": "200"' in line for line in lines] == [True] * 2
