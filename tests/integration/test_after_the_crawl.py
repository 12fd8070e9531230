"""Files that were deduplicated after the crawl, read and replayed by others."""

import gzip

import pytest

from tests.integration import test_wacz
from tests.postcrawl.conftest import OTHER, PAGE, Written, date
from tests.postcrawl.test_dedupe import chunked, revisits, run
from tests.warc.judges import assert_sound

CODED = gzip.compress(PAGE, mtime=0)
ASKED = [
    # host and path, second, stored body, headers, body as replay gives it
    ("a.example/", 1, PAGE, [], PAGE),
    ("a.example/other", 2, OTHER, [], OTHER),
    ("a.example/", 60, PAGE, [], PAGE),
    ("a.example/", 120, OTHER, [], OTHER),
    ("b.example/page?q=1", 121, PAGE, [], PAGE),
    ("b.example/coded", 122, CODED, [("Content-Encoding", "gzip")], CODED),
    ("b.example/coded", 180, CODED, [("Content-Encoding", "gzip")], CODED),
    *[
        (
            "c.example/chunks",
            second,
            chunked(PAGE, size),
            [("Transfer-Encoding", "chunked")],
            PAGE,
        )
        for second, size in ((200, 100), (260, 100), (320, 70))
    ],
]


@pytest.fixture
def deduplicated(tmp_path):
    """Files of four captures at most, of which five become revisits."""
    before, out = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    for number in range(0, len(ASKED), 4):
        warc = Written(before / f"{number}.warc.gz")
        for place, second, body, headers, _ in ASKED[number : number + 4]:
            warc.response(f"http://{place}", second, body, headers=headers)
        warc.close()
    assert run("dedupe", before, "-o", out)["replaced"] == 5
    assert run("verify", before, out)["faults"] == 0
    for path in before.iterdir():
        path.unlink()
    return out


def test_other_readers_find_no_fault_in_the_files(deduplicated, tmp_path):
    again = tmp_path / "again"
    run("restore", deduplicated, "-o", again)
    files = [*deduplicated.glob("*.warc.gz"), *again.glob("*.warc.gz")]
    assert len(files) == 6
    for path in files:
        assert_sound(path)


@pytest.mark.compat
def test_pywb_replays_every_capture_byte_for_byte(deduplicated, tmp_path):
    assert len(revisits(deduplicated)) == 5
    files = sorted(deduplicated.glob("*.warc.gz"))
    with test_wacz.replay(tmp_path / "pywb", *files) as ask:
        for place, second, _, _, body in ASKED:
            at = "".join(filter(str.isdigit, date(second)))
            assert ask.of(f"http://{place}", at=at) == (200, body), (place, second)
