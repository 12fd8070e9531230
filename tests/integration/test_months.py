"""A crawl of months in seconds: nodes come and go, and what there is stays as small."""

from collections import Counter

import pytest

from benchmarks import months
from benchmarks.months import Sizes, index_faults, rounds
from benchmarks.server import private_server
from frontier.status import reports
from frontier.status.snapshot import snapshot
from frontier.store.client import BlockingStore

pytestmark = pytest.mark.bench
PAGES = 20
ROUNDS = 24
KEPT = 4


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """24 rounds, two of which end with the death of their node."""
    with pytest.MonkeyPatch.context() as patch, private_server(None) as server:
        patch.setattr(reports, "KEPT", KEPT)
        patch.setattr(months, "KILLS", 12)
        patch.setattr(months, "CHANGES", 8)
        home = tmp_path_factory.mktemp("months")
        done = rounds(server, home, Sizes(ROUNDS, PAGES, 6), lambda _: None)
        store = BlockingStore.from_settings({"REDIS_URL": server.url})
        yield done, snapshot(store, "frontier", months.CRAWL), index_faults(server.url)
        store.close()


def test_every_page_is_fetched_in_every_round(crawled):
    done, *_ = crawled

    assert done.by_page.keys() == set(range(PAGES))
    assert max(done.by_page.values()) - min(done.by_page.values()) <= len(done.killed)


def test_a_page_is_fetched_twice_in_one_round_only_if_a_node_died(crawled):
    done, *_ = crawled

    assert done.killed
    twice = Counter(visit.round for visit in done.early)
    assert set(twice) <= {number + 1 for number in done.killed}
    for number in twice:
        before = {v.page for v in done.visits if v.round == number - 1}
        assert {v.page for v in done.early if v.round == number} <= before
        assert len({v.page for v in done.early}) == len(done.early)


def test_store_and_journals_are_as_small_after_many_rounds_as_after_a_few(crawled):
    done, *_ = crawled
    early, late = done.looks[1], done.looks[-1]

    assert late.rounds >= 3 * early.rounds
    assert late.keys <= early.keys + 12
    assert late.journal_bytes <= 2 * early.journal_bytes
    assert late.journals <= early.journals + 2
    assert late.reports <= KEPT + 4 + len(done.killed)
    assert late.payloads > early.payloads  # some pages have changed


def test_the_report_has_all_nodes_in_its_totals(crawled):
    done, seen, _ = crawled

    assert seen.gone + len(seen.nodes) == ROUNDS
    assert seen.gone >= ROUNDS - KEPT - len(done.killed) - 2
    archived = seen.totals.archive
    killed = sum(visit.round in done.killed for visit in done.visits)
    stored = archived.originals + archived.revisits
    assert len(done.visits) - killed <= stored <= len(done.visits)


def test_the_collection_is_whole_after_rounds_and_kills(crawled):
    _, _, faults = crawled

    assert faults == 0
