"""What sites and other tools put into WARC files, and what becomes of it in a WACZ."""

import gzip
import json
import re
import resource
import tracemalloc
import zlib

import brotli
import pytest

from frontier.errors import BadWarc
from frontier.wacz.check import check
from frontier.wacz.create import create
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.file_rotation import WarcConfig
from tests.harness import commands
from tests.warc.samples import an_exchange, change_members, inside, written

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\n%b\r\n"


def a_warc(directory, *exchanges):
    directory.mkdir(exist_ok=True)
    return written(WarcConfig(directory, "c", "n"), exchanges)


@pytest.mark.parametrize("size", [0, 4_096, 40_000])
def test_a_disk_that_is_full_keeps_nothing_of_a_wacz(tmp_path, size):
    """The file itself, the lines that are sorted, or the list of pages is too large."""
    path = a_warc(tmp_path / "warcs", *map(an_exchange, range(500)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large|disk I/O error"):
            create(tmp_path / "c.wacz", [path])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == [tmp_path / "warcs"]


@pytest.mark.parametrize("listed", [False, True])
def test_odd_captures_are_in_it_as_what_they_are(tmp_path, listed):
    inner = a_warc(tmp_path / "inner", an_exchange(1), an_exchange(2)).read_bytes()
    many = b"".join(b"X-%d: y\r\n" % n for n in range(100_000))
    packed = brotli.compress(b"<title>packed</title>")
    path = a_warc(
        tmp_path / "warcs",
        an_exchange(1, inner, response_head=HEAD % (b"application/warc", b"")),
        an_exchange(2, zlib.decompress(inner, 47), response_head=HEAD % (b"x/y", b"")),
        an_exchange(
            3,
            packed,
            response_head=HEAD % (b"text/html", b"Content-Encoding: br\r\n"),
        ),
        an_exchange(4, response_head=HEAD % (b"text/html", many)),
        an_exchange(5, b"", url="http://example.com/../../etc/passwd"),
    )
    if listed:
        Listing().write(path)
    tracemalloc.start()

    made = create(tmp_path / "c.wacz", [path])

    assert tracemalloc.get_traced_memory()[1] < 60_000_000
    tracemalloc.stop()
    assert (made.captures, made.read) == (5, 0 if listed else 1)
    assert check(made.path) == []
    found = inside(made.path)
    pages = found["pages/pages.jsonl"].splitlines()[1:]
    assert {name.split("/")[0] for name in found} == {
        "archive",
        "indexes",
        "pages",
        "datapackage.json",
        "datapackage-digest.json",
    }
    assert "title" not in json.loads(pages[0])  # brotli: nothing is guessed
    assert json.loads(pages[-1])["url"].endswith("passwd")


def changed(path, header, value):
    """Give the first response of *path*, its second record, another *header*."""
    odd = f"{header}: {value}".encode()

    def change(number, record):
        is_it = number == 1
        return re.sub(rf"{header}: [^\r]*".encode(), odd, record) if is_it else record

    change_members(path, change)


NO_DATE = "is not a date of UTC"
UNLISTED = [
    ("WARC-Date", "99999-01-01T00:00:00Z", NO_DATE),
    ("WARC-Date", "2026-13-01T00:00:00Z", NO_DATE),
    ("WARC-Date", "2026-01-02T03:04:05.6+01:00", NO_DATE),
    ("WARC-Date", "", NO_DATE),
    ("WARC-Target-URI", "", "without a URL"),
]


@pytest.mark.parametrize(("header", "value", "reason"), UNLISTED)
@pytest.mark.parametrize("listed", [False, True])
def test_capture_with_an_invalid_date_is_reported_and_no_wacz_is_made(
    tmp_path, header, value, reason, listed
):
    path = a_warc(tmp_path / "warcs", an_exchange(1), an_exchange(2))
    if listed:
        Listing().write(path)
    changed(path, header, value)

    with pytest.raises(BadWarc, match=reason):
        create(tmp_path / "c.wacz", [path])
    assert not list(tmp_path.glob("c.wacz*"))
    # The command leaves it out, and says so; what is in the file and not found is told.
    done = commands.run("wacz", "create", tmp_path / "c.wacz", path)
    assert (done.returncode, "1 captures, 1 pages" in done.stdout) == (6, True)
    assert reason in done.stderr
    (complaint,) = check(tmp_path / "c.wacz")
    assert reason in complaint


DATES = {
    "2026": "20260101000000",
    "2026-05-06": "20260506000000",
    "2026-05-06T07:08Z": "20260506070800",
    "2026-05-06T07:08:09.123456789Z": "20260506070809",
    "20260506070809": "20260506070809",
}


@pytest.mark.parametrize("date", DATES)
def test_a_date_may_be_as_precise_as_the_tool_knew_it(tmp_path, date):
    """WARC 1.1, section 5.4: from a year to nanoseconds."""
    path = a_warc(tmp_path / "warcs", an_exchange(1), an_exchange(2))
    changed(path, "WARC-Date", date)

    made = create(tmp_path / "c.wacz", [path])

    assert (made.captures, made.pages) == (2, 2)
    assert check(made.path) == []
    index = gzip.decompress(inside(made.path)["indexes/index.cdx.gz"]).decode()
    assert f"/1 {DATES[date]} " in index
