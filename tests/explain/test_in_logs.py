"""Crawl logs are read as what they are: text of unknown origin."""

import gzip
import os

import pytest

from frontier.explain.files import KEPT
from frontier.explain.in_logs import LONGEST, read_logs
from frontier.explain.in_store import Subject
from frontier.model import Attempt, Found
from frontier.warc.crawl_log import CrawlLog, line_of
from frontier.warc.file_rotation import WarcConfig

URL = "http://a.example/x"
NOON = 1_767_225_600.0


def subject(url=URL, others=()):
    return Subject(
        *(url, url, url, "", "scrapy", True, "a.example", 0, b"", 0),
        same=lambda other: other in {url, *others},
    )


@pytest.fixture
def log(tmp_path):
    """Write attempts, each a URL, a status and how it was found, to a crawl log."""

    def log(*attempts, node="n"):
        made = CrawlLog(WarcConfig(tmp_path, "c-1", node), lambda: NOON)
        for number, (url, status, found) in enumerate(attempts):
            attempt = Attempt(url, status, NOON, NOON + number, found)
            made.write([line_of(attempt)])
        made.close()
        return sorted(tmp_path.glob("*.crawl.log"))

    return log


def test_attempts_of_all_nodes_are_in_the_order_of_time(log):
    home = Found("", "", "")
    link = Found("http://a.example/", "L", "http://a.example/")
    log(("http://a.example/", 200, home), (URL, 503, link), node="n-1")
    paths = log(*[("http://b.example/", 200, home)] * 5, (URL, 200, link), node="n-2")

    facts = read_logs(paths, subject())

    assert [entry.status for entry in facts.entries] == [503, 200]
    assert facts.entries[0].via == "http://a.example/"
    assert facts.entries[0].source == f"{paths[0]}:2"
    assert facts.seeds == {"http://a.example/", "http://b.example/"}


def test_other_spellings_count_and_other_hosts_do_not(log):
    paths = log(
        ("http://A.example:80/x", 200, None),
        ("http://b.example/x?a.example", 200, None),
        ("http://www.a.example/x", 200, None),
    )
    same = ("http://A.example:80/x", "http://www.a.example/x")

    facts = read_logs(paths, subject(others=same))

    assert [entry.url for entry in facts.entries] == list(same)


def test_redirect_target_is_reported_with_its_status(log):
    hop = Found(URL, "LR", "http://a.example/")
    paths = log((URL, 302, None), ("http://c.example/", -5000, hop))

    (led,) = read_logs(paths, subject()).followed

    assert (led.url, led.status) == ("http://c.example/", -5000)


def test_first_and_latest_of_many_attempts_are_kept(log):
    paths = log(*[(URL, 200 + n, None) for n in range(3 * KEPT)])

    facts = read_logs(paths, subject())

    statuses = [entry.status for entry in facts.entries]
    assert facts.count == 3 * KEPT
    assert statuses == [200, *range(200 + 2 * KEPT, 200 + 3 * KEPT)]


def test_a_log_that_is_being_written_is_read_to_its_last_whole_line(log):
    (path,) = log((URL, 200, None))
    open_one = path.with_name(path.name + ".open")
    path.rename(open_one)
    with open_one.open("ab") as file:
        file.write(b"2026-01-01T00:00:09.000Z   404          0 http://a.exam")

    facts = read_logs([open_one], subject())

    assert [entry.status for entry in facts.entries] == [200]
    assert (facts.wrong, facts.unread) == (0, [])


def test_invalid_log_lines_are_counted_and_missing_files_reported(tmp_path, log):
    (good,) = log((URL, 200, None))
    bad = tmp_path / "bad"
    long = b"2026 200 1 " + b"http://a.example/" + b"y" * (4 * LONGEST) + b"\n"
    bad.write_bytes(os.urandom(4_000).replace(b"\n", b"") + b"\n" + long)
    gone = tmp_path / "gone"

    facts = read_logs([bad, gone, good], subject())

    assert facts.count == 1
    assert facts.wrong == 2
    assert facts.unread == [f"{gone}: No such file or directory"]


@pytest.mark.parametrize("cut", [0, 40])
def test_a_compressed_log_is_read_and_one_that_is_cut_is_named(log, cut):
    (path,) = log(*[("http://b.example/", 404, None)] * 500, (URL, 200, None))
    packed = path.with_name(f"{path.name}.gz")
    whole = gzip.compress(path.read_bytes())
    packed.write_bytes(whole[: len(whole) - cut])

    facts = read_logs([packed], subject())

    assert bool(facts.unread) == bool(cut)
    if not cut:
        assert [entry.status for entry in facts.entries] == [200]
        assert facts.entries[0].source == f"{packed}:501"
