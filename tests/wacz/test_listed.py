"""A WACZ made from the indexes beside the WARC files, and one made by reading them."""

import gzip
import hashlib
import json
import re

import pytest

from frontier.errors import BadWarc
from frontier.wacz.check import check
from frontier.wacz.create import Options, create
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.file_rotation import WarcConfig
from tests.warc.samples import an_exchange, inside, written

FAR = b"<p>" + hashlib.sha512(b"far").hexdigest().encode() * 400
HTML = [("Content-Type", "text/html; charset=utf-8")]
GZIP = [*HTML, ("Content-Encoding", "gzip")]
BODIES = [
    (HTML, b"<title>near</title>" + FAR),
    (HTML, b"".join(b"%d " % n for n in range(9_000)) + b"<title>far</title>" + FAR),
    (HTML, b"<p>without a title"),
    (GZIP, gzip.compress(b"<title>packed &eacute;</title>", mtime=0)),
    ([("Content-Type", "image/png")], b"<title>no page</title>"),
    ([], b"<title>of no type</title>"),
    (HTML, b"<p>without a title"),  # a revisit
]


@pytest.fixture
def warc(tmp_path):
    """Write a WARC file with all sorts of captures; return its path."""

    def write(directory, bodies=BODIES):
        (tmp_path / directory).mkdir()
        exchanges = []
        for number, (headers, body) in enumerate(bodies):
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
            head = f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode()
            exchanges.append(an_exchange(number, body, response_head=head))
        config = WarcConfig(tmp_path / directory, "c-1", "a", listing=Listing())
        path = written(config, exchanges, {})
        lines = beside_of(path).read_bytes()
        Listing().write(path)  # which reads it, as after a crash
        assert beside_of(path).read_bytes() == lines
        return path

    return write


@pytest.fixture
def plain(tmp_path, warc):
    """The WACZ of a file that has no index beside it."""
    path = warc("plain")
    beside_of(path).unlink()
    made = create(tmp_path / "plain.wacz", [path], Options(created=1.0))
    assert (made.read, made.captures, made.pages, made.missing) == (1, 7, 5, 0)
    return made.path.read_bytes()


def test_wacz_from_a_sidecar_equals_one_from_reading_the_file(tmp_path, warc, plain):
    path = warc("listed")

    made = create(tmp_path / "listed.wacz", [path], Options(created=1.0))

    assert (made.read, made.captures, made.pages) == (0, 7, 5)
    assert made.path.read_bytes() == plain
    assert check(made.path) == []
    pages = inside(made.path)["pages/pages.jsonl"].decode()
    for title in ("near", "far", "packed \\u00e9"):
        assert f'"title": "{title}"' in pages


def noted(line):
    """An index line in three parts, of which the second is its notes."""
    found = re.search(
        rb'(?:, "(?:refers-to|refers-to-date|date|title)": "[^"]*")+', line
    )
    return (line[: found.start()], found[0], b"}\n") if found else (line, b"", b"")


@pytest.mark.parametrize(
    "change",
    [
        lambda note: b"",  # as before there were any
        lambda note: note.replace(b'"date": "2', b'"date": "1'),
        lambda note: note.replace(b'"date": "', b'"date": "x'),
        lambda note: note.replace(b'"title": "', b'"title": 1, "x": "'),
        lambda note: note.replace(b'"title"', b'"tit"'),
        lambda note: note.replace(b'"refers-to"', b'"refers"'),
        lambda note: note.replace(b'"refers-to-date": "', b'"refers-to-date": "x'),
        lambda note: note.replace(b'"refers-to": "', b'"refers-to": "\xc3\xa9'),
    ],
)
def test_unusable_sidecar_note_makes_the_warc_file_be_read(
    tmp_path, warc, plain, change
):
    path = warc("listed")
    lines = beside_of(path).read_bytes().splitlines(keepends=True)
    parts = [noted(line) for line in lines]
    assert sum(bool(note) for _, note, _ in parts) == 5
    changed = [begin + change(note) + end for begin, note, end in parts]
    assert changed != lines
    beside_of(path).write_bytes(b"".join(changed))

    made = create(tmp_path / "listed.wacz", [path], Options(created=1.0))

    name = "pages/pages.jsonl"
    assert inside(made.path)[name] == inside(plain)[name]
    assert (made.read, made.missing) == (1, 0)


def test_an_index_that_cannot_be_used_costs_no_capture_of_another_file(tmp_path, warc):
    one, two = warc("one"), warc("two", BODIES[1:2])
    two = two.rename(two.with_name("two.warc.gz"))
    beside_of(two).write_bytes(b"none")

    made = create(tmp_path / "both.wacz", [one, two], Options(created=1.0))

    assert (made.read, made.captures, made.pages, made.missing) == (1, 8, 6, 0)
    assert check(made.path) == []


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (rb"\"}\u003c/script>{", '"}</script>{'),
        (b"x" * 301, "x" * 300),
        (rb"\u00e9" * 301, "\u00e9" * 300),
        (rb"\ud83d\ude00 ok", "\U0001f600 ok"),
        (rb"\ud83d alone", "? alone"),
        (b"\xc3\xa9", "\u00e9"),
    ],
)
def test_a_title_that_lies_is_escaped_and_capped(tmp_path, warc, said, title):
    path = warc("listed", BODIES[:1])
    before = beside_of(path).read_bytes()
    beside_of(path).write_bytes(before.replace(b'"near"', b'"%b"' % said))

    made = create(tmp_path / "listed.wacz", [path])

    assert (made.read, check(made.path)) == (0, [])
    found = inside(made.path)
    (page,) = found["pages/pages.jsonl"].splitlines()[1:]
    assert b"title" not in gzip.decompress(found["indexes/index.cdx.gz"])
    assert page.isascii()
    assert json.loads(page)["title"] == title


def moved(old, new):
    """Change the first number that *old* names in the last line."""
    return lambda lines: [*lines[:-1], lines[-1].replace(old, old + new, 1)]


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines[:-1],
        lambda lines: [],
        lambda lines: lines * 2,
        lambda lines: [b'!meta 0 {"canonicalization": "x"}\n', *lines],
        moved(b'"offset": "', b"9"),
        moved(b'"length": "', b"9"),
        moved(b'"filename": "', b"x"),
        lambda lines: [*lines, b"\xff no line\n"],
        lambda lines: [line[:40] for line in lines],
    ],
)
def test_an_index_that_does_not_fit_is_not_used(tmp_path, warc, plain, change):
    path = warc("listed")
    lines = beside_of(path).read_bytes().splitlines(keepends=True)
    beside_of(path).write_bytes(b"".join(change(lines)))

    made = create(tmp_path / "listed.wacz", [path], Options(created=1.0))

    assert made.read == 1
    assert made.path.read_bytes() == plain


def test_a_file_that_was_cut_is_named_though_it_has_an_index(tmp_path, warc):
    path = warc("listed")
    path.write_bytes(path.read_bytes()[:-9])

    with pytest.raises(BadWarc, match="the last record is cut off"):
        create(tmp_path / "listed.wacz", [path])
