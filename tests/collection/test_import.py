"""What an import puts into a collection's index."""

import gzip
import json

import pytest
from fastwarc import ArchiveIterator

from frontier.cdx.lines import LINE_LIMIT
from frontier.dedupe.digest import digest_of
from frontier.dedupe.digest_index import decode
from frontier.warc.file_rotation import WarcConfig
from tests.collection.samples import (
    digest,
    line,
    make_manifest,
    make_wacz,
    resource,
    revisit,
)
from tests.harness import commands
from tests.postcrawl.test_zstd import frames
from tests.warc.samples import an_exchange, written


@pytest.fixture
def manifest(tmp_path):
    """Two crawls; the first has two WACZ files, and a revisit before its original."""
    a1 = make_wacz(tmp_path / "a1.wacz", [line(1), line(2), revisit(11, of=1)])
    a2 = make_wacz(
        tmp_path / "a2.wacz", [line(3), line("2b", of=2), revisit(12, of="later")]
    )
    b1 = make_wacz(
        tmp_path / "b1.wacz",
        [line("later", size=5000), line(1, size=900), revisit(13, of=3)],
        compressed=False,
    )
    found = [resource(a1, "a"), resource(a2, "a"), resource(b1, "b")]
    return make_manifest(tmp_path / "all.json", found)


@pytest.mark.parametrize("compat", [True, False])
def test_an_import_leaves_what_browsertrix_leaves_key_for_key(index, manifest, compat):
    """Browsertrix 1.14, as its sources have it; an index is right only without."""
    done = index.put(manifest, compat=compat)

    assert (done.sources, done.originals, done.revisits) == (3, 6, 3)
    second = 0 if compat else 1
    resources = json.loads(manifest.read_text())["resources"]
    entries = [
        json.dumps(
            {"filename": r["name"], "size": r["size"], "hash": r["hash"]},
            separators=(",", ":"),
        )
        for r in resources
    ]
    day, at = "20260102030405", "http://site.example"
    size = [each["size"] for each in resources]
    assert (
        index.everything()
        == {
            "alldupes": {
                digest(1): "a",
                digest(2): "a",
                digest(3): "a",
                digest("later"): "b",
            },
            "h:a": {
                digest(1): f"0 {day} {at}/1 2000",
                digest(2): f"0 {day} {at}/2 2000",
                digest(3): f"{second} {day} {at}/3 2000",  # of the second WACZ
            },
            "h:b": {
                digest("later"): f"0 {day} {at}/later 5000",
                digest(1): f"0 {day} {at}/1 900",
            },
            "h:a:counts": {
                "totalUrls": "6",
                "dupeUrls": "2",
                "conservedSize": "1700",
                "totalCrawlSize": str(size[0] + size[1]),
            },
            "h:b:counts": {
                "totalUrls": "3",
                "dupeUrls": "1",
                "conservedSize": "1700",
                "totalCrawlSize": str(size[2]),
            },
            "c:a:wacz": entries[:2],
            "c:b:wacz": entries[2:],
            "allcrawls": {"a", "b"},
            "src:d": {"a1.wacz", "a2.wacz", "b1.wacz"},
            "allcounts": {
                "totalUrls": "9",
                "dupeUrls": "3",
                "conservedSize": "3400",
                "totalCrawlSize": str(sum(size)),
                "redundantUrls": "1",
                "estimatedRedundantSize": "1000",
                "removedCrawls": "0",
                "removedCrawlSize": "0",
                "updateProgress": "1",
            },
        }
    )


def test_the_rest_of_a_line_that_is_too_long_is_no_line(index, tmp_path):
    forged = f"com,other)/ 20200102030405 http://other.example/ - 200 {digest(9)} "
    begin = f'{line(1)[:-1]}, "x": "'
    long = f'{begin}{"x" * (LINE_LIMIT - len(begin))}{forged} - - 500 7 a.warc.gz "}}'
    wacz = make_wacz(tmp_path / "a.wacz", [long, line(2)])

    done = index.put(wacz)

    (wrong,) = done.wrong
    assert "line 1: it is too long" in wrong
    assert index.hash(index.keys.alldupes) == {digest(2): str(wacz)}


def test_file_name_imported_by_another_crawl_is_refused(index, tmp_path):
    paths = []
    for crawl in "ab":
        (tmp_path / crawl).mkdir()
        paths.append(make_wacz(tmp_path / crawl / "site.wacz", [line(crawl)]))
    assert index.run("import", paths[0], "--crawl", "a")[0] == 0

    code, _, err = index.run("import", paths[1], "--crawl", "b")

    assert code != 0
    assert "'site.wacz' is in the index, of another crawl than b" in err
    assert index.run("import", paths[0], "--crawl", "a")[0] == 0


def test_of_two_files_of_one_name_the_second_is_left_out(index, tmp_path):
    paths = []
    for place in "ab":
        (tmp_path / place).mkdir()
        paths.append(make_wacz(tmp_path / place / "site.wacz", [line(place)]))

    done = index.put(*paths, crawl_id="c")

    (reason,) = done.broken
    assert "a second 'site.wacz'" in reason
    assert index.hash(index.keys.alldupes) == {digest("a"): "c"}


def test_revisit_size_is_counted_once_its_original_is_imported(index, tmp_path):
    """Whatever label its digest has, and wherever it stands in its file."""
    early = revisit(1, of=5, label="sha256:")
    a = make_wacz(tmp_path / "a.wacz", [early])
    b = make_wacz(tmp_path / "b.wacz", [early, line(5, label="", size=1300)])

    index.put(a, crawl_id="a")
    index.put(b, crawl_id="b")

    assert (index.counts()["dupeUrls"], index.counts()["conservedSize"]) == (2, 1000)
    assert index.counts("b")["conservedSize"] == 1000


def test_cdx_of_other_tools_and_crawl_logs(index, tmp_path):
    sha1 = "B7YMOBC5JNPUHQWZ5YIPZCEO4VXXYQFR"
    (tmp_path / "old.cdx").write_text(
        " CDX N b a m s k r M S V g\n"
        f"site)/ 20200101000000 http://old.example/a text/html 200 {sha1} - - 777 0 x\n"
    )
    seven = sha1.replace("B7", "D7")
    (tmp_path / "api.cdx").write_text(
        f"site)/ 20190101000000 http://old.example/7 text/html 200 {seven} 555\n"
    )
    (tmp_path / "crawl.log").write_text(
        "2020-02-03T04:05:06.789Z   200       5000 http://log.example/b L "
        "http://log.example/ text/html #012 20200203040506123+45 "
        f"sha1:{sha1.replace('B7', 'C7')} - -\n"
        "2020-02-03T04:05:07.789Z   200       5000 http://log.example/c L "
        "http://log.example/ text/html #012 20200203040507123+45 "
        f"sha1:{sha1} - warcRevisit:digest,3t\n"
        "2020-02-03T04:05:08.789Z    -9          - http://log.example/d L "
        "http://log.example/ unknown #012 - - - -\n"
    )

    given = [tmp_path / name for name in ("old.cdx", "crawl.log", "api.cdx")]
    done = index.put(*given, crawl_id="h3")

    assert done.complete
    assert done.revisits == 1
    assert index.hash(index.keys.crawl("h3")) == {
        sha1: "0 20200101000000 http://old.example/a 777",
        sha1.replace("B7", "C7"): "1 20200203040506 http://log.example/b 5000",
        seven: "2 20190101000000 http://old.example/7 555",
    }


@pytest.mark.parametrize(
    ("notes", "originals", "revisits"),
    [
        ("-", 1, 0),
        ("", 1, 0),
        ("3t", 1, 0),
        ("duplicates.css", 1, 0),
        ("content-size:9,lenTrunc", 1, 0),
        ("warcRevisit:digest", 0, 1),
        ("3t,warcRevisit:notModified", 0, 1),
        ("Revisit:IdenticalPayloadDigest", 0, 1),
        ('2t,Revisit:IdenticalPayloadDigest {"revisit-uri":"http://a/"}', 0, 1),
        ("duplicate", 0, 1),
        ("3t,duplicate", 0, 1),
        ('duplicate:"2009-1"', 0, 1),
        ("duplicate,3t", 0, 1),
        ("unwritten:status", 0, 0),
    ],
)
def test_crawl_log_note_decides_original_revisit_or_neither(
    index, tmp_path, notes, originals, revisits
):
    (tmp_path / "crawl.log").write_text(
        "2020-02-03T04:05:06.789Z   200       5000 http://log.example/b L "
        "http://log.example/ text/html #012 20200203040506123+45 "
        f"sha1:B7YMOBC5JNPUHQWZ5YIPZCEO4VXXYQFR - {notes}\n"
    )
    done = index.put(tmp_path / "crawl.log")

    assert (done.originals, done.revisits) == (originals, revisits)


@pytest.fixture
def warc(tmp_path):
    """A WARC file with three originals and a revisit of the first."""
    pages = [(f"http://a/{n}", b"%d" % n * 1000) for n in (1, 2, 3)]
    pages.append(("http://a/again", pages[0][1]))
    exchanges = [an_exchange(url=url, body=body) for url, body in pages]
    return written(WarcConfig(tmp_path, "old", "node"), exchanges, {})


def test_a_warc_file_is_imported_without_an_index(index, warc):
    done = index.put(warc, crawl_id="old")

    assert (done.originals, done.revisits, done.wrong_lines) == (3, 1, 0)
    found = index.hash(index.keys.crawl("old"))
    assert set(found) == {digest_of(b"%d" % n * 1000) for n in (1, 2, 3)}
    offsets, dates = {}, {}
    with warc.open("rb") as stream:
        for record in ArchiveIterator(stream, parse_http=False):
            dates[record.headers.get("WARC-Target-URI")] = record.headers["WARC-Date"]
            offsets[record.stream_pos] = record.headers.get("WARC-Target-URI")
    ends = [*sorted(offsets)[1:], warc.stat().st_size]
    sizes = {end - start for start, end in zip(sorted(offsets), ends, strict=True)}
    assert {decode(value).length for value in found.values()} <= sizes
    values = [decode(value) for value in found.values()]
    assert {(each.url, each.date) for each in values} <= dates.items()
    assert all("." in each.date for each in values)
    (entry,) = index.waczs("old")
    assert entry["filename"] == warc.name
    assert entry["size"] == warc.stat().st_size


def a_record(block, *headers, version="1.0", kind="application/http; msgtype=response"):
    lines = [
        f"WARC/{version}",
        "WARC-Type: response",
        "WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-000000000001>",
        "WARC-Target-URI: http://a/1",
        "WARC-Date: 2019-01-01T00:00:00Z",
        f"Content-Type: {kind}",
        *headers,
        f"Content-Length: {len(block)}",
    ]
    head = "".join(f"{each}\r\n" for each in lines).encode()
    return gzip.compress(head + b"\r\n" + block + b"\r\n\r\n")


PAYLOAD = b"hello " * 100_000
OK = b"HTTP/1.1 200 OK\r\nContent-Encoding: x\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: x, Chunked\r\nA: b\r\n\r\n"
CHUNKS = b"%x;why=not\r\n%b\r\n%X\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (
    *(500_000, PAYLOAD[:500_000]),
    *(100_000, PAYLOAD[500_000:]),
)
SHA1 = digest_of(PAYLOAD, "sha1")


@pytest.mark.parametrize(
    ("record", "algorithm", "expected"),
    [
        (a_record(OK + PAYLOAD), "", digest_of(PAYLOAD)),
        (a_record(OK + PAYLOAD), "sha1", SHA1),
        (a_record(OK + PAYLOAD, f"WARC-Payload-Digest: sha1:{SHA1}"), "", SHA1),
        (
            a_record(OK + PAYLOAD, f"WARC-Payload-Digest: sha1:{SHA1}"),
            "sha256",
            digest_of(PAYLOAD),
        ),
        # what the record says is believed where it is of that algorithm
        (a_record(OK + b"x", f"WARC-Payload-Digest: sha1:{SHA1}"), "sha1", SHA1),
        (a_record(OK + PAYLOAD, "WARC-Payload-Digest: ?"), "sha1", SHA1),
        (a_record(CHUNKED + CHUNKS), "", digest_of(PAYLOAD)),
        (a_record(CHUNKED + PAYLOAD), "", digest_of(PAYLOAD)),
        (a_record(OK.replace(b"\r", b"") + PAYLOAD), "", digest_of(PAYLOAD)),
        (a_record(OK), "", digest_of(b"")),
        (a_record(PAYLOAD, kind="image/png"), "sha1", SHA1),
        (a_record(OK + PAYLOAD, version="0.18"), "sha1", SHA1),
    ],
)
def test_a_digest_that_a_warc_has_not_is_computed(
    index, tmp_path, record, algorithm, expected
):
    path = tmp_path / "old.warc.gz"
    path.write_bytes(record)

    done = index.put(path, crawl_id="old", digest=algorithm)

    assert done.complete
    assert set(index.hash(index.keys.crawl("old"))) == {expected}


@pytest.mark.parametrize(
    "record",
    [
        a_record(OK + PAYLOAD, "WARC-Truncated: length"),
        a_record(CHUNKED + CHUNKS[:-200_000]),
        a_record(CHUNKED + CHUNKS.replace(b"\r\n186A0\r\n", b"\r\n186A1\r\n")),
        a_record(b"no HTTP at all"),
        a_record(b"HTTP/1.1 200 OK\r\nA: b"),
        a_record(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 400_000),
    ],
)
def test_a_payload_that_is_not_whole_has_no_digest(index, tmp_path, record):
    path = tmp_path / "old.warc.gz"
    path.write_bytes(record)

    done = index.put(path, crawl_id="old")

    assert (
        "old.warc.gz, record at byte 0: it has no digest: b'http://a/1'"
        in done.wrong[0]
    )
    assert not index.hash(index.keys.crawl("old"))


def test_a_warc_of_zstd_frames_is_read_and_an_index_begins_with_what_it_is(
    index, tmp_path
):
    """ipwb's CDXJ has lines of metadata without a date; a text of a page is none."""
    warc, cdxj = tmp_path / "old.warc.zst", tmp_path / "new.cdxj"
    frames([gzip.decompress(a_record(OK + PAYLOAD))], warc)
    text = line(5, url="urn:text:http://a/")
    cdxj.write_text(
        f'!context ["http://a/"]\n!meta {{"generator": "ipwb"}}\n{text}\n{line(1)}\n'
    )

    done = index.put(warc, cdxj, crawl_id="old")

    assert done.complete, done.wrong
    assert set(index.hash(index.keys.crawl("old"))) == {digest_of(PAYLOAD), digest(1)}


def test_a_directory_is_what_is_below_it_and_one_bad_target_spoils_nothing(
    index, tmp_path
):
    directory = tmp_path / "d"
    (directory / "deep").mkdir(parents=True)
    make_wacz(directory / "deep" / "a.wacz", [line(1)])
    (directory / "b.warc.gz").write_bytes(a_record(OK + PAYLOAD))
    (directory / "b.cdxj").write_text(line(2))
    (directory / "c.warc.gz.open").write_bytes(b"a node writes it")
    (tmp_path / "old.arc.gz").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").touch()

    targets = ["old.arc.gz", "notes.txt", "empty", "nowhere", "d"]
    code, _, err = index.run("import", *targets, "--crawl", "x", cwd=tmp_path)

    assert code == 6, err
    assert "old.arc.gz: an ARC file (frontier warc convert makes it WARC)" in err
    assert "notes.txt: its name ends in none of" in err
    assert "nowhere: there is no such file or directory" in err
    assert "empty: no .warc, .warc.gz, .warc.zst or .wacz is below it" in err
    found = set(index.hash(index.keys.crawl("x")))
    assert found == {digest(1), digest_of(PAYLOAD)}
    assert index.run("import", "d", "--digest", "crc32")[0] == 2


def test_crawls_missing_from_a_new_manifest_are_counted_as_removed(index, tmp_path):
    a = make_wacz(tmp_path / "a.wacz", [line(1)])
    b = make_wacz(tmp_path / "b.wacz", [line(2)])
    index.put(make_manifest(tmp_path / "1.json", [resource(a, "a"), resource(b, "b")]))

    index.put(make_manifest(tmp_path / "2.json", [resource(b, "b")]))

    assert index.counts()["removedCrawls"] == 1
    assert index.counts()["removedCrawlSize"] == a.stat().st_size


def test_import_of_missing_file_makes_no_store(tmp_path):
    words = ["collection", "import", "nowhere", "--store-dir", tmp_path]
    assert commands.run(*words).returncode == 6
    assert not list(tmp_path.iterdir())
