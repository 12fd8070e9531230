"""Sources that say what is not so are refused, with one line each."""

import gzip
import json

import pytest

from frontier.cli.output import ExitCode
from tests.collection.samples import line, make_manifest, make_wacz, resource

HUGE = 10_000_000_000_000


def a_record(number, said=None):
    block = b"HTTP/1.1 200 OK\r\n\r\nbody %d" % number
    size = len(block) if said is None else said
    return (
        (
            b"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:%d>\r\n"
            b"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Target-URI: http://a.example/%d\r\n"
            b"Content-Type: application/http; msgtype=response\r\n"
            b"WARC-Payload-Digest: sha256:%064d\r\nContent-Length: %d\r\n\r\n"
            % (number, number, number, size)
        )
        + block
        + b"\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("said", "which", "packed"),
    [
        *((said, which, True) for said in (HUGE, 3_000, 600) for which in range(3)),
        *((HUGE, which, False) for which in range(3)),
        (3_000, 0, False),
    ],
)
def test_a_record_that_says_it_is_longer_than_it_is(
    index, tmp_path, said, which, packed
):
    records = [a_record(n, said if n == which else None) for n in range(3)]
    path = tmp_path / ("lies.warc.gz" if packed else "lies.warc")
    path.write_bytes(b"".join(gzip.compress(r) if packed else r for r in records))

    code, _, err = index.run("import", path)

    assert code == ExitCode.INCOMPLETE
    (told,) = [each for each in err.splitlines() if "left out" in each]
    # Without compression it reaches beyond the end, as a file does that was cut.
    reason = f"says {said} bytes, and has 25" if packed else "cut off at byte 9"
    assert reason in told
    assert not index("HLEN", index.keys.alldupes())


@pytest.mark.parametrize("size", [HUGE, str(HUGE)])
def test_a_line_of_an_index_with_a_length_that_no_record_has(index, tmp_path, size):
    path = tmp_path / "i.cdxj"
    text = line(1) + "\n" + line(2).replace('"2000"', json.dumps(size)) + "\n"
    path.write_text(text)

    code, _, err = index.run("import", path)

    assert code == ExitCode.INCOMPLETE
    assert "line 2: its length 10000000000000 is invalid" in err
    assert index.counts()["totalUrls"] == 1


def test_no_crawl_is_called_like_the_counts_of_another(index, tmp_path):
    good = make_wacz(tmp_path / "b.wacz", [line(1)])
    evil = make_wacz(tmp_path / "evil.wacz", [line(2)])
    manifest = make_manifest(
        tmp_path / "all.json", [resource(good, "b"), resource(evil, "b:counts")]
    )

    code, _, err = index.run("import", manifest)

    assert code == ExitCode.INCOMPLETE
    assert "no crawl has the id 'b:counts'" in err
    assert index.members(index.keys.committed()) == {"b"}


def test_a_purge_leaves_the_counts_of_a_crawl_that_stays(index, tmp_path):
    wacz = make_wacz(tmp_path / "b.wacz", [line(1)])
    manifest = make_manifest(tmp_path / "all.json", [resource(wacz, "b")])
    index.put(manifest)
    before = index.counts("b")
    index("SADD", index.keys.committed(), "b:counts")  # by another tool

    code, _, err = index.run("purge", manifest, "--yes")

    assert code == ExitCode.OK, err
    assert index.counts("b") == before
    assert index.members(index.keys.committed()) == {"b"}
