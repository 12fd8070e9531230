"""The scripts of rounds, on a real server, and what is read of its replies."""

import pytest

from frontier.feeds import round_state as r
from frontier.feeds.model import Feed, Site
from frontier.feeds.round_state import FeedRecord, InProgress

pytestmark = pytest.mark.store

FEED = "https://news.example/rss"
HOUR = 3600


def site(name="news", wait_s=HOUR, wait_max_s=None, feeds=(FEED,), **state):
    most = wait_max_s or wait_s
    made = tuple(Feed(url, ("https://news.example/",)) for url in feeds)
    return Site(name, made, wait_s, most, **state)


class Driver:
    """What a node does to the rounds of one site."""

    def __init__(self, store, keys):
        self.store, self.keys = store, keys

    def update(self, site):
        return self.store.call(r.update_call(self.keys, site)).decode()

    def due(self, most=10):
        return r.due_of(self.store.call(r.due_call(self.keys, most)))

    def begin(self, name="news", look_ms=5000, max_ms=10**9, idle=False):
        call = r.begin_call(
            self.keys, name, "n1", look_ms=look_ms, max_ms=max_ms, idle=idle
        )
        return r.taken_of(self.store.call(call))

    def add(self, number, *urls, name="news", attempt=0, feed=FEED):
        some = [
            InProgress(r.round_id(url.encode(), attempt), 7, url, feed) for url in urls
        ]
        return self.store.call(r.add_call(self.keys, name, number, some)).decode()

    def note(self, number, name="news", whole=None, feeds=(), **urls):
        facts = r.Facts(whole=whole, feeds=[list(feed) for feed in feeds])
        for what, some in urls.items():
            setattr(facts, what, [r.round_id(url.encode(), 0) for url in some])
        replies = self.store.run(r.note_calls(self.keys, name, number, facts))
        return replies[-1]

    def field(self, name, of="news"):
        return self.store.call(r.Call.command("HGET", self.keys.site(of), name))

    def past(self, name="news"):
        lines = r.Call.command("LRANGE", self.keys.rounds(name), 0, -1)
        return r.read_rounds(self.store.call(lines))

    def due_in(self, name="news"):
        """Seconds until the site is looked at."""
        score = self.store.call(r.Call.command("ZSCORE", self.keys.sites(), name))
        return (float(score) - self.due().now) / 1000

    def make_due(self, name="news"):
        self.store.call(r.Call.command("ZADD", self.keys.sites(), 0, name))

    def begun(self, *urls, look_ms=5000):
        """The number of a round of *urls*, all of them queued."""
        self.make_due()
        number = self.begin(look_ms=look_ms).number
        self.add(number, *urls)
        self.note(number, queued=urls, whole=1)
        return number


@pytest.fixture
def driver(blocking, crawl):
    return Driver(blocking(), crawl)


def test_a_new_site_is_due_at_once_and_then_after_its_wait(driver):
    assert driver.update(site()) == "updated"
    assert driver.due().names == ["news"]

    taken = driver.begin()
    assert (taken.what, taken.number) == ("begin", 1)
    assert taken.feeds == [(FEED, ["https://news.example/"])]
    assert driver.field("state") == b"crawling"

    assert driver.add(1, FEED) == "n"
    assert driver.note(1, queued=[FEED], whole=1) == 0
    assert driver.note(1, done=[FEED]) == 1
    assert driver.field("state") == b"waiting"
    assert driver.due().names == []
    assert HOUR - 60 < driver.due_in() <= HOUR


def test_to_say_it_again_changes_nothing(driver):
    driver.update(site())

    assert driver.update(site()) == "same"
    assert driver.update(site(wait_s=60)) == "updated"
    assert driver.field("wait") == b"60"


def test_two_nodes_take_a_site_once(driver):
    driver.update(site())

    assert driver.begin().what == "begin"
    assert driver.begin().what == "not"


def test_a_round_that_was_begun_and_not_emitted_is_emitted_again(driver):
    driver.update(site(feeds=(FEED, FEED + "2")))
    driver.begin(look_ms=0)
    driver.add(1, FEED)
    driver.note(1, queued=[FEED])
    driver.note(1, done=[FEED])  # it does not end: the other feed is to come

    again = driver.begin(look_ms=0)
    assert (again.what, again.number) == ("begin", 1)
    assert driver.add(1, FEED, FEED + "2") == "qn"


def test_what_was_noted_and_may_not_be_queued_is_queued_again(driver):
    driver.update(site())
    driver.begin()

    assert driver.add(1, FEED) == "n"
    assert driver.add(1, FEED) == "n"  # who noted it has died
    driver.note(1, queued=[FEED])
    assert driver.add(1, FEED) == "q"
    driver.note(1, done=[FEED])
    assert driver.add(1, FEED) == "q"  # it is done with, in this round
    assert driver.add(1, FEED, attempt=1) == "n"  # to retry it is another matter


def test_what_one_feed_is_about_to_queue_is_not_queued_for_another(driver):
    driver.update(site())
    driver.begin()

    assert driver.add(1, "item", feed=FEED) == "n"
    assert driver.add(1, "item", feed=FEED + "2") == "q"
    assert driver.add(1, "item", feed=FEED) == "n"  # its node has died, say


def test_a_round_waits_for_what_its_pages_lead_to(driver):
    driver.update(site())
    number = driver.begun(FEED)
    driver.add(number, "item", "image")

    assert driver.note(number, done=[FEED], queued=["item"], seen=["image"]) == 0
    assert driver.note(number, done=["item"]) == 1


def test_a_verdict_that_comes_late_and_twice_is_harmless(driver):
    driver.update(site())
    number = driver.begun(FEED)
    driver.add(number, "image")
    driver.note(number, queued=["image"])

    driver.note(number, seen=["image"])  # a node that died had it queued
    assert driver.note(number, done=[FEED]) == 0
    assert driver.note(number, done=["image"]) == 1
    assert driver.note(number, done=["image"]) == -1
    assert driver.note(number, queued=["image"]) == -1
    assert driver.field("state") == b"waiting"


def test_a_node_that_wakes_up_late_holds_up_no_round(driver):
    driver.update(site())
    number = driver.begun(FEED)
    driver.add(number, "page", "other")
    driver.note(number, queued=["page", "other"], done=[FEED])
    driver.add(number, "style")  # the node that queued it is frozen now

    driver.note(number, done=["page", "style"])
    assert driver.add(number, "style") == "q"  # for the other page
    driver.note(number, queued=["style"])  # the node has woken up
    driver.note(number, seen=["style"])
    assert driver.note(number, done=["other"]) == 1
    assert driver.past()[0].lost == 0


def test_the_feed_is_known_when_its_request_is_done_with(driver):
    driver.update(site())
    number = driver.begun(FEED)
    record = FeedRecord(FEED, digest="abc", items=3)
    name = f"feed:{r.feed_field(FEED)}"
    feeds = [
        (r.round_id(FEED.encode(), 0), 3, name, record.packed(), "items:x", b"\xff\x00")
    ]

    assert driver.note(number, done=[FEED], feeds=feeds) == 1
    assert r.read_feed(FEED, driver.field(name)) == record
    assert driver.field("items:x") == b"\xff\x00"
    assert driver.field("items") == b"3"
    assert driver.past()[0].items == 3
    driver.note(number, done=[FEED], feeds=feeds)  # sent twice, counted once
    assert driver.field("items") == b"3"


def test_a_feed_of_a_round_before_the_last_is_not_known_by_that(driver):
    driver.update(site())
    first = driver.begun(FEED)
    driver.note(first, done=[FEED])
    driver.begun(FEED)

    feeds = [(r.round_id(FEED.encode(), 0), 1, "feed:x", b"old")]
    assert driver.note(first, done=[FEED], feeds=feeds) == -1
    assert driver.field("feed:x") is None


def test_the_wait_is_halved_by_news_and_grows_without(driver):
    driver.update(site(wait_s=100, wait_max_s=1000))

    def after(found):
        number = driver.begun(FEED)
        feeds = [(r.round_id(FEED.encode(), 0), found, "feed:x", b"")]
        assert driver.note(number, done=[FEED], feeds=feeds) == 1
        return int(driver.field("wait"))

    assert [after(0) for _ in range(7)] == [150, 225, 338, 507, 761, 1000, 1000]
    assert [after(2) for _ in range(5)] == [500, 250, 125, 100, 100]


def test_a_fixed_wait_stays(driver):
    driver.update(site(wait_s=90))
    for _ in range(3):
        number = driver.begun(FEED)
        driver.note(number, done=[FEED])

    assert driver.field("wait") == b"90"
    assert [past.wait_s for past in driver.past()] == [90] * 3


def test_a_site_that_changes_in_its_round_is_updated_when_it_ends(driver):
    driver.update(site())
    number = driver.begun(FEED)

    assert driver.update(site(wait_s=60, paused=True)) == "updating"
    assert driver.field("state") == b"crawling"
    assert driver.note(number, done=[FEED]) == 1
    assert driver.field("state") == b"paused"
    assert driver.due().names == []


def test_an_ended_site_that_is_wanted_again_goes_on_where_it_was(driver):
    driver.update(site())
    number = driver.begun(FEED)
    driver.note(number, done=[FEED])
    driver.store.call(r.end_call(driver.keys, "news"))
    assert driver.field("state") == b"ended"
    assert driver.due().names == []

    assert driver.update(site()) == "updated"
    assert driver.field("state") == b"waiting"
    assert HOUR - 60 < driver.due_in() <= HOUR
    driver.make_due()
    assert driver.begin().number == number + 1


def test_a_round_that_takes_too_long_is_ended_and_says_what_was_left(driver):
    driver.update(site())
    number = driver.begun(FEED, "item", look_ms=0)
    driver.note(number, done=[FEED])

    over = driver.begin(look_ms=0, max_ms=0)
    assert over.what == "over"
    assert [(one.partition, one.url) for one in over.left] == [(7, "item")]
    assert driver.past()[0].lost == 1
    assert driver.add(number, "more") == "l"
    assert driver.note(number, done=["item"]) == -1


def test_a_round_that_was_never_emitted_in_whole_does_not_last_for_ever(driver):
    driver.update(site())
    driver.begin(look_ms=0)

    assert driver.begin(look_ms=0, max_ms=0).what == "over"
    assert driver.field("state") == b"waiting"


def test_a_round_goes_on_without_what_is_lost(driver):
    driver.update(site())
    number = driver.begun(FEED, "item", look_ms=0)
    look = driver.begin(look_ms=0)
    assert look.what == "look"
    assert {one.url for one in look.left} == {FEED, "item"}

    driver.note(number, done=[FEED])
    assert driver.note(number, lost=["item"]) == 1
    assert driver.past()[0].lost == 1


def test_a_site_without_a_feed_to_ask_for_has_its_round(driver):
    driver.update(site(feeds=()))
    taken = driver.begin()

    assert taken.feeds == []
    assert driver.note(1, whole=0) == 1


def test_the_longest_due_comes_first_and_no_more_than_asked(driver):
    for name in ("a", "b", "c"):
        driver.update(site(name))
    driver.store.call(r.Call.command("ZADD", driver.keys.sites(), 5, "b", 7, "c"))

    assert driver.due(2).names == ["b", "c"]


def test_nothing_is_due_in_a_crawl_that_has_ended(driver):
    driver.update(site())
    driver.store.call(r.Call.command("HSET", driver.keys.meta(), "state", "finished"))

    assert driver.due()[1:] == (-1, [])


def test_no_more_than_a_hundred_rounds_are_kept(driver):
    driver.update(site())
    for _ in range(103):
        number = driver.begun(FEED)
        driver.note(number, done=[FEED])

    past = driver.past()
    assert len(past) == 100
    assert [past[0].number, past[-1].number] == [103, 4]
    left = ["round", "had"]
    names = [getattr(driver.keys, what)("news") for what in left]
    assert [driver.store.call(r.Call.command("EXISTS", name)) for name in names] == [
        0,
        0,
    ]


def test_many_ids_at_a_time(driver):
    driver.update(site())
    urls = [f"https://news.example/{n}" for n in range(1200)]
    number = driver.begun(FEED)
    for at in range(0, len(urls), r.MOST_IDS):
        assert set(driver.add(number, *urls[at : at + r.MOST_IDS])) == {"n"}

    assert driver.note(number, done=[FEED], queued=urls[:700], seen=urls[700:]) == 0
    assert driver.note(number, done=urls[:700]) == 1
    assert driver.past()[0].urls == 1201


@pytest.mark.parametrize(
    "field", ["state", "want", "config", "wait", "round", "emitted", "whole", "urls"]
)
@pytest.mark.parametrize("value", [b"abc", b"\xff\xfe\x00", b"9" * 30, b"-5", b""])
def test_a_damaged_site_costs_a_round_and_no_more(driver, field, value):
    driver.update(site())
    number = driver.begun(FEED)
    driver.store.call(r.Call.command("HSET", driver.keys.site("news"), field, value))

    driver.add(number, "item")
    driver.note(number, done=[FEED])
    driver.make_due()
    driver.begin(max_ms=0)
    driver.update(site(wait_s=2 * HOUR))
    driver.update(site())
    driver.make_due()
    assert driver.begin().what in {"begin", "look"}


def test_only_what_can_be_is_read():
    packed = FeedRecord(FEED, digest="d", failures=2).packed()

    assert r.read_feed(FEED, packed).failures == 2
    assert r.read_feed("https://other.example/", packed).failures == 0
    for garbage in (None, b"", b"abc", b"\xff\xfe", b"\x80", b"9" * 30):
        assert r.read_feed(FEED, garbage) == FeedRecord(FEED)
        assert r.read_config(garbage) == []
    wrong = r.pack({"url": FEED, "failures": "many", "resume": -4, "digest": 5})
    assert r.read_feed(FEED, wrong) == FeedRecord(FEED)
    assert r.read_rounds([b"1 2 3", b"", b"\xff", b"1 2 3 4 5 6 7 -8"]) == []


def test_a_feed_that_fails_is_left_out_of_more_and_more_rounds():
    record, resumes = FeedRecord(FEED, digest="good"), []
    number = 10
    for _ in range(8):
        record = record.failed("it answers 500", number, HOUR)
        resumes.append(record.resume - number - 1)
        number = record.resume

    assert resumes == [0, 1, 3, 7, 15, 24, 24, 24]  # a day has 24 hours
    assert record.digest == "good"
    assert record.answered(5).failures == 0
    assert FeedRecord(FEED).failed("x", 1, 10**6).resume == 2
    assert record.failed("x", 1, 86_400 * 7).resume == 2 + 1


def test_no_round_begins_of_a_site_that_is_idle_and_the_next_one_when_it_is_not(driver):
    driver.update(site())

    assert driver.begin(idle=True).what == "not"
    assert 50 < driver.due_in() <= 60
    assert (driver.field("state"), driver.field("round")) == (b"waiting", None)
    driver.make_due()
    assert driver.begin().number == 1


def test_a_round_that_runs_goes_on_though_its_site_is_idle_now(driver):
    driver.update(site())
    number = driver.begun(FEED)
    driver.make_due()

    assert driver.begin(idle=True).what == "look"
    assert driver.note(number, done=[FEED]) == 1
