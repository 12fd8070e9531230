"""The schedules S1 to S19 of the protocol hold, and each can be seen to fail."""

import json
import re

import pytest

from tests.harness.modules import ROOT, run

FAULTS = {
    "s1": "hands_over_what_is_started",
    "s1_local": "waits_for_what_is_kept",
    "s2": "adopts_what_it_has",
    "s3_local": "hands_over_what_is_started",
    "s3": "hands_over_what_is_started",
    "s4": "acks_before_its_links",
    "s4_local": "acks_before_what_it_adopts",
    "s5": "counts_on_for_ever",
    "s6": "takes_without_comparing",
    "s7": "lets_in_its_double",
    "s8": "never_recovers",
    "s9_deleted": "marks_crawls_alike",
    "s9_emptied": "takes_what_was_emptied",
    "s10": "keeps_whatever_the_server",
    "s10_local": "claims_for_what_is_lost",
    "s10_cut": "keeps_for_a_moment",
    "s11": "keeps_nothing",
    "s14": "counts_what_is_kept",
    "s15": "drops_after_an_outage",
    "s16": "written_after_a_thaw",
}
"""By schedule a fault that breaks it."""
TOLD_BY_PROCESSES = {
    "S12": "integration/test_outage.py::"
    "test_a_full_store_drops_no_node_and_nothing_is_started",
    "S13": "feeds/test_round_state.py::"
    "test_a_round_whose_node_died_before_it_said_so_is_begun_again",
    "S17": "integration/test_slow_hosts.py::"
    "test_hosts_with_a_long_crawl_delay_take_no_slot_while_they_wait",
    "S18": "integration/test_uplink.py::"
    "test_no_request_is_given_up_while_the_uplink_is_down",
    "S19": "integration/test_rebuild.py::"
    "test_a_crawl_that_was_deleted_leaves_the_next_of_its_name_alone",
}
"""What tells the others, under ``tests``."""


def play(*words):
    """What is wrong with each schedule that *words* name, or with all."""
    done = run("schedules", *words)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def found():
    return play()


@pytest.mark.parametrize("name", FAULTS)
def test_a_schedule_holds(found, name):
    assert found[name] == ""


@pytest.mark.parametrize(
    "names", [("s4", "s8", "s16"), pytest.param(tuple(FAULTS), marks=pytest.mark.long)]
)
def test_each_schedule_fails_under_its_fault(names):
    faulty = play(*(f"{name}={FAULTS[name]}" for name in names))
    assert [name for name in names if not faulty[name]] == []


def test_each_schedule_has_a_script_or_names_a_test(found):
    assert found.keys() == FAULTS.keys()
    scripts = {name.partition("_")[0].upper() for name in FAULTS}
    assert scripts | TOLD_BY_PROCESSES.keys() == {f"S{n}" for n in range(1, 20)}
    for place in TOLD_BY_PROCESSES.values():
        file, _, test = place.partition("::")
        source = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^(async )?def {test}\(", source, re.MULTILINE), place
