"""What an operator wants of a crawl, as the store has it."""

import pytest

from frontier.cluster import controls
from frontier.cluster.controls import (
    KEPT,
    PAUSED,
    RESUMED,
    Change,
    change,
    exclude,
    include,
    read,
    setting,
)
from frontier.cluster.endings import finish
from frontier.cluster.membership import Membership
from frontier.errors import CrawlClosed, KeyDamaged, UnknownCrawl
from frontier.model import Member
from frontier.urls.exclusions import HOST, PREFIX, rule_of

WHO = "ada@ops"


@pytest.fixture
def look(blocking, crawl):
    """What is wanted now."""
    store = blocking()
    return lambda: read(crawl, store.run(controls.calls(crawl), tolerant=True))


@pytest.fixture
def do(blocking, crawl):
    store = blocking()

    def do(verb, what="", who=WHO, **fields):
        version, done = change(store, crawl, Change(verb, what, fields), who)
        return version if done else None

    return do


@pytest.fixture
def do_change(blocking, crawl):
    store = blocking()
    return lambda wanted: change(store, crawl, wanted, WHO)


def test_a_pause_says_since_when_and_by_whom_and_is_made_once(do, look, db):
    before = int(db("TIME")[0]) * 1000
    first = do(PAUSED)

    by = look().paused
    assert by.who == WHO
    assert before <= by.at_ms <= first
    assert do(PAUSED) is None
    assert look().paused == by
    assert [entry.verb for entry in look().log] == [PAUSED]


async def test_a_heartbeat_brings_the_version_alone(do, store, crawl):
    node = Membership(store.run, crawl, Member("a", 1), 64, ttl=60.0)
    assert (await node.beat(busy=False, report=None)).controls == ""
    version = do(PAUSED)

    assert (await node.beat(busy=False, report=None)).controls == str(version)


async def test_a_paused_crawl_does_not_end(do, store, crawl):
    do(PAUSED)
    assert await finish(store.run, crawl, ttl=60.0) is None
    assert do(RESUMED)
    assert do(RESUMED) is None
    assert await finish(store.run, crawl, ttl=60.0) is True


def test_only_an_open_crawl_is_changed(do, crawl, db, look):
    db("HSET", crawl.meta, "state", "finished")
    with pytest.raises(CrawlClosed):
        do(PAUSED)
    db("DEL", crawl.meta)
    with pytest.raises(UnknownCrawl):
        do(PAUSED)
    assert look().log == ()


def test_the_log_is_bounded(do, look):
    versions = [do("noted", str(number)) for number in range(KEPT + 3)]

    log = look().log
    assert [entry.version for entry in log] == versions[3:]
    assert log[-1].what == str(KEPT + 2)


def test_a_version_is_never_one_that_was_before(do, db, crawl):
    first = do(PAUSED)
    db("HSET", crawl.meta, "controls", first + 10**9)  # the clock was set back
    assert do(RESUMED) == first + 10**9 + 1
    for garbage in ("abc", "9" * 30, "-5", ""):
        db("HSET", crawl.meta, "controls", garbage)
        assert first <= do("noted") < first + 10**9


def test_a_log_of_another_type_refuses_a_pause(do, look, db, crawl):
    db("SET", crawl.control_log, "x")
    assert crawl.control_log in look().strange[0]

    with pytest.raises(KeyDamaged, match="control_log"):
        do(PAUSED)
    assert look().paused is None
    assert db("GET", crawl.control_log) == b"x"


def test_entries_that_nobody_here_wrote_are_left_out_and_counted(do, look, db, crawl):
    do(PAUSED)
    for garbage in (b"abc", b"1 2 BAD x\n", b"\xff\xfe\0\n", b"1 2 x y", b"9" * 30):
        db("LPUSH", crawl.control_log, garbage)

    assert [entry.verb for entry in look().log] == [PAUSED]
    assert look().strange == (f"{crawl.control_log}: 5 entries of it cannot be read",)


def test_log_entries_hold_no_terminal_control_characters(do, look):
    do("noted", "a\x1b[2Jb\nc", "eve\x1b\n@x")

    (entry,) = look().log
    assert "\x1b" not in entry.what + entry.who
    assert "\n" not in entry.what + entry.who


def test_exclusions_and_settings_are_stored_logged_and_taken_back(do_change, look):
    rule = rule_of(PREFIX, "http://a.example/x y")
    do_change(exclude(rule))
    do_change(setting({"DOWNLOAD_DELAY": "2"}, "a.example"))
    do_change(setting({"DOWNLOAD_DELAY": "1", "DEPTH_LIMIT": "3"}))

    seen = look()
    assert seen.strange == ()
    assert seen.excluded[rule].who == WHO
    assert seen.exclusions.why("http://a.example/x y/z") == rule
    assert {which: how[0] for which, how in seen.settings.items()} == {
        ("DOWNLOAD_DELAY", "a.example"): "2",
        ("DOWNLOAD_DELAY", ""): "1",
        ("DEPTH_LIMIT", ""): "3",
    }
    do_change(include(rule))
    do_change(setting({"DOWNLOAD_DELAY": ""}, "a.example"))
    assert not look().exclusions
    assert ("DOWNLOAD_DELAY", "a.example") not in look().settings
    assert [entry.verb for entry in look().log] == [
        "excluded", "set", "set", "included", "unset",
    ]  # fmt: skip


def test_repeated_setting_changes_nothing(do_change):
    assert do_change(setting({"DEPTH_LIMIT": "3"}))[1] is True
    assert do_change(setting({"DEPTH_LIMIT": "3"}))[1] is False
    assert do_change(setting({"DEPTH_LIMIT": ""}))[1] is True
    assert do_change(setting({"DEPTH_LIMIT": ""}))[1] is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("x", b"1 x\nyes"),
        ("exclude", b"1 x\nyes"),
        ("exclude host ", b"1 x\nyes"),
        ("exclude host A.example", b"1 x\nyes"),
        ("exclude host a.example", b"\xff\xfe\x00\n"),
        ("exclude pattern (a)\\1", b"1 x\nyes"),
        ("exclude galaxy a.example", b"1 x\nyes"),
        ("set", b"1 x\n1"),
        ("set DOWNLOAD_DELAY", b"1 x\nabc"),
        ("set DOWNLOAD_DELAY", b"9" * 30),
        ("set DOWNLOAD_DELAY a b", b"1 x\n1"),
        ("set DEPTH_LIMIT a.example", b"1 x\n1"),
        ("set FRONTIER_PARTITIONS", b"1 x\n1"),
        (b"\xff\xfe", b"1 x\n1"),
    ],
)
def test_an_entry_that_nobody_here_wrote_is_left_out_and_named(
    do_change, look, db, crawl, field, value
):
    rule = rule_of(HOST, "b.example")
    do_change(exclude(rule))
    db("HSET", crawl.controls, field, value)

    seen = look()
    assert list(seen.excluded) == [rule]
    assert seen.settings == {}
    assert len(seen.strange) == 1
    assert crawl.controls in seen.strange[0]
