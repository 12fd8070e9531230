"""The judge of a trial is shown what must not be, one thing at a time."""

from dataclasses import replace
from pathlib import Path

import pytest

from frontier.testing.oracle import Entry, RequestLog
from tests.chaos.oracle import Facts, Wrong, extra_fetches, judge
from tests.chaos.plan import Plan
from tests.chaos.records import Indexed, Original, Records, Revisit
from tests.chaos.trial import Trial

PATHS = ("/", "/a", "/b")
EXPECTED = frozenset(f"http://h:1{path}" for path in PATHS)
A, B = "http://h:1/a", "http://h:1/b"


def entry(start, path, node="x", seconds=0.1, host="h:1", **facts):
    facts = {"method": "GET", "status": 200, "bytes": 1, "ua": None, **facts}
    return Entry(
        start=start,
        end=start + seconds,
        host=host,
        url=f"http://{host}{path}",
        node=node,
        **facts,
    )


GOOD = [
    entry(0.0, "/robots.txt"),
    entry(1.0, "/"),
    entry(2.0, "/a"),
    entry(3.0, "/b", node="y"),
]
RECORDS = Records(
    responses={
        Original("http://h:1/", "t1"): "sha256:1",
        Original(A, "t2"): "sha256:2",
    },
    revisits=[Revisit(B, Original(A, "t2"), "sha256:2")],
)
FACTS = Facts(
    expected=EXPECTED,
    log=RequestLog(GOOD),
    in_flight={},
    records=RECORDS,
    finished=4.0,
    delay=0.5,
    slack=0.1,
)


def found(*more, without=(), **changes):
    """What is wrong with the good trial, but for *more* and *changes*."""
    entries = [e for e in GOOD if e.url not in without] + list(more)
    faults = judge(replace(FACTS, log=RequestLog(entries), **changes))
    return [fault.wrong for fault in faults]


def with_records(**changes):
    return found(records=replace(RECORDS, **changes))


def test_a_good_trial_has_no_fault():
    assert found() == []


def test_a_page_that_was_never_fetched_is_lost_and_its_end_was_early():
    assert found(without=[B]) == [Wrong.LOST, Wrong.EARLY]


def test_a_crawl_that_has_ended_without_one_request_has_lost_all():
    trial = Trial(Plan(0, 2, ()))

    trial._conclude(replace(FACTS, log=RequestLog([])))

    assert trial._outcome.count(Wrong.LOST) == len(EXPECTED)
    assert trial._outcome.ending == 0


def test_a_page_whose_answer_was_cut_off_is_lost():
    cut = entry(3.0, "/b", node="y", aborted=True)

    assert Wrong.LOST in found(cut, without=[B])


def test_a_second_fetch_is_extra_unless_it_was_in_flight():
    again = entry(3.5, "/a", node="y")

    assert found(again) == [Wrong.EXTRA]
    assert found(again, in_flight={B: 1}) == [Wrong.EXTRA]
    assert found(again, in_flight={A: 1}) == []


def test_an_injected_fault_excuses_one_more_fetch_and_no_third():
    twice = [entry(3.4, "/a", node="y"), entry(3.9, "/a", node="y")]

    assert found(*twice, in_flight={A: 1}) == [Wrong.EXTRA]
    log = RequestLog([*GOOD, *twice])
    assert extra_fetches(replace(FACTS, log=log)) == {A: 2}


def test_an_answer_that_was_cut_off_is_not_a_fetch():
    assert found(entry(1.5, "/a", aborted=True)) == []


def test_a_page_that_is_not_the_sites_is_strange():
    assert found(entry(3.5, "/private/1", node="y")) == [Wrong.STRANGE]


def test_two_nodes_at_one_host_at_the_same_time():
    late = entry(3.05, "/robots.txt", node="x")

    assert found(late) == [Wrong.OVERLAP]


def test_a_request_without_a_node_is_one_more_nodes():
    unknown = entry(3.05, "/robots.txt", node=None)

    assert found(unknown) == [Wrong.OVERLAP]
    assert found(entry(3.05, "/robots.txt", node="x", host="h:2")) == []


@pytest.mark.parametrize(("start", "wrong"), [(3.2, [Wrong.HASTE]), (3.45, [])])
def test_two_nodes_within_the_delay_of_a_host(start, wrong):
    assert found(entry(start, "/robots.txt", node="x")) == wrong


def test_a_revisit_whose_original_is_not_stored():
    lost = Revisit(B, Original(A, "t9"), "sha256:2")

    assert with_records(revisits=[lost]) == [Wrong.DANGLING]


def test_a_revisit_of_another_payload():
    other = Revisit(B, Original(A, "t2"), "sha256:3")

    assert with_records(revisits=[other]) == [Wrong.DANGLING]


def test_a_revisit_of_a_revisit():
    chain = [*RECORDS.revisits, Revisit(B, Original(B, "t3"), "sha256:2")]

    assert with_records(revisits=chain) == [Wrong.DANGLING]


def test_an_index_that_leads_to_what_is_not_stored():
    there = Indexed("2", A, "t2")

    assert found(indexed=(there,)) == []
    assert found(indexed=(there._replace(date="t9"),)) == [Wrong.INDEXED]
    assert found(indexed=(there._replace(digest="1"),)) == [Wrong.INDEXED]
    assert found(indexed=(Indexed("2", "", ""),)) == [Wrong.INDEXED]


def test_a_page_without_a_record():
    assert with_records(revisits=[]) == [Wrong.UNARCHIVED]


def test_a_file_that_is_not_whole():
    assert with_records(broken=["f.warc.gz is still open"]) == [Wrong.BROKEN]


def test_a_crawl_that_did_not_end():
    assert found(finished=None) == [Wrong.ENDLESS]


def test_a_request_after_the_end():
    assert found(finished=2.5) == [Wrong.EARLY]


def test_a_page_that_was_given_up_and_a_node_that_crashed():
    assert found(dead=(A,)) == [Wrong.DEAD]
    assert found(crashed=("process-1",)) == [Wrong.CRASHED]
    assert found(errors=("process-1",)) == [Wrong.ERROR]


def test_every_kind_of_fault_is_shown_here():
    """Whoever adds one shows it to the judge as well."""
    text = Path(__file__).read_text("utf-8")

    assert [wrong for wrong in Wrong if f"Wrong.{wrong.name}" not in text] == []
