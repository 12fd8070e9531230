"""The scripts of rounds, on a real server, and what is read of its replies."""

import pytest

from frontier.feeds import round_state as r
from frontier.feeds.model import Feed, Site
from frontier.queue.item import encode
from frontier.status.schedules import site_views
from frontier.store.calls import milliseconds

pytestmark = pytest.mark.store

FEED, OTHER = "https://news.example/rss", "https://news.example/sport"
PAGES = ("https://news.example/",)
HOUR = 3600


def site(name="news", wait_s=HOUR, wait_max_s=None, feeds=(FEED,), **state):
    made = tuple(Feed(url, PAGES) for url in feeds)
    return Site(name, made, wait_s, wait_max_s or wait_s, **state)


class Driver:
    """What a node does to the rounds of one site."""

    def __init__(self, store, keys):
        self.store, self.keys = store, keys

    def update(self, site):
        return self.store.call(r.update_call(self.keys, site.name, site)).decode()

    def due(self, most=10):
        reply = self.store.call(r.due_call(self.keys, most))
        return reply and [name.decode() for name in reply[0]]

    def take(self, name="news", look_ms=5000):
        call = r.take_call(self.keys, name, look_ms)
        return r.taken_of(self.store.call(call))

    def note(self, number, feed="", *, asked=None, found=0, record=b""):
        """*feed* has answered, with so many new items *found*."""
        fields = None if asked is None else [r.feed_field(url) for url in asked]
        told = [r.feed_field(feed), found, f"feed:{feed}", record] if feed else ()
        call = r.note_call(self.keys, "news", number, asked=fields, feed=told)
        self.store.call(call)

    def claim(self, number, feed, *pages):
        call = r.claim_call(self.keys, "news", number, feed, pages)
        return self.store.call(call).decode()

    def field(self, name, of="news"):
        return self.store.call(r.Call.command("HGET", self.keys.site(of), name))

    @property
    def state(self):
        return self.field("state").decode()

    def due_in(self, name="news"):
        """Seconds until the site is looked at."""
        score = self.store.call(r.Call.command("ZSCORE", self.keys.sites, name))
        now = milliseconds(self.store.command("TIME"))
        return (float(score) - now) / 1000

    def make_due(self, name="news"):
        self.store.call(r.Call.command("ZADD", self.keys.sites, 0, name))

    def begun(self, *feeds):
        """The number of a round of *feeds*, all of them queued."""
        self.make_due()
        number = self.take().number
        self.note(number, asked=feeds)
        return number


@pytest.fixture
def driver(blocking, crawl):
    return Driver(blocking(), crawl)


def test_a_new_site_is_due_at_once_and_then_after_its_wait(driver):
    assert driver.update(site()) == "updated"
    assert driver.update(site()) == "same"
    assert driver.due() == ["news"]

    taken = driver.take()
    assert (taken.number, taken.feeds) == (1, [FEED])
    assert driver.take() is None  # two nodes take it once
    assert driver.state == "crawling"
    driver.note(1, asked=[FEED])
    assert HOUR - 60 < driver.due_in() <= HOUR
    driver.note(1, FEED, found=2)
    assert driver.state == "waiting"
    assert driver.due() == []
    assert HOUR - 60 < driver.due_in() <= HOUR
    assert (driver.field("items"), driver.field("wait")) == (b"2", b"3600")


def test_a_round_whose_node_died_before_it_said_so_is_begun_again(driver):
    driver.update(site(feeds=(FEED, OTHER)))
    driver.take(look_ms=0)
    driver.note(1, FEED)  # quicker than the count of feeds

    assert driver.take(look_ms=0).number == 1
    driver.note(1, asked=[FEED, OTHER])
    assert driver.state == "crawling"
    driver.note(1, asked=[FEED])  # the first node was only slow
    driver.note(1, FEED)
    assert driver.state == "crawling"
    driver.note(1, OTHER)
    assert driver.state == "waiting"


def test_a_feed_that_never_answers_holds_up_no_round(driver):
    driver.update(site(feeds=(FEED, OTHER)))
    first = driver.begun(FEED, OTHER)
    driver.note(first, FEED, found=1)
    driver.make_due()

    assert driver.take().number == first + 1
    driver.note(first + 1, asked=[FEED])
    driver.note(first, OTHER, found=3)  # it does, late: it is noted, and no more
    assert driver.state == "crawling"
    assert driver.field("items") == b"4"
    driver.note(first + 1, FEED)
    assert driver.state == "waiting"


def test_a_feed_counts_once_in_a_round_and_never_what_is_older(driver):
    driver.update(site(feeds=(FEED, OTHER)))
    number = driver.begun(FEED, OTHER)
    for record in (b"first", b"again"):
        driver.note(number, FEED, found=2, record=record)
    assert (driver.state, driver.field("items")) == ("crawling", b"2")
    assert driver.field(f"feed:{FEED}") == b"first"
    driver.note(number, OTHER)
    later = driver.begun(FEED)
    driver.note(later, FEED, record=b"later")
    driver.note(number, FEED, found=5, record=b"older")

    assert driver.field(f"feed:{FEED}") == b"later"
    assert driver.field("items") == b"2"


def test_a_page_of_two_feeds_is_queued_by_one_of_them(driver):
    driver.update(site(feeds=(FEED, OTHER)))
    number = driver.begun(FEED, OTHER)

    assert driver.claim(number, FEED, b"1", b"2") == "yy"
    assert driver.claim(number, OTHER, b"2", b"3") == "ny"
    assert driver.claim(number, FEED, b"1", b"2") == "yy"  # its node has died, say
    later = driver.begun(FEED, OTHER)
    assert driver.claim(later, OTHER, b"2") == "y"
    assert driver.claim(later, FEED, b"2") == "n"


def test_a_feed_that_answers_late_queues_nothing_that_another_one_has(driver):
    driver.update(site(feeds=(FEED, OTHER)))
    number = driver.begun(FEED, OTHER)
    assert driver.claim(number, FEED, b"1") == "y"
    later = driver.begun(FEED)

    assert driver.claim(number, OTHER, b"1", b"2") == "ny"
    assert driver.claim(later, FEED, b"1", b"2") == "yy"
    assert driver.claim(number, OTHER, b"2") == "n"


def test_the_wait_is_halved_by_news_and_grows_without(driver):
    driver.update(site(wait_s=100, wait_max_s=1000))

    def after(found):
        driver.note(driver.begun(FEED), FEED, found=found)
        return int(driver.field("wait"))

    assert [after(0) for _ in range(7)] == [150, 225, 338, 507, 761, 1000, 1000]
    assert [after(2) for _ in range(5)] == [500, 250, 125, 100, 100]
    driver.update(site(wait_s=90))
    assert [after(n) for n in (0, 1, 0)] == [90] * 3


def test_a_site_that_changes_in_its_round_is_so_at_once(driver):
    driver.update(site())
    number = driver.begun(FEED)
    assert driver.update(site(wait_s=60)) == "updated"
    assert driver.state == "crawling"
    assert driver.due_in() <= 60
    for state in ("paused", "ended"):
        driver.update(site(**{state: True}))
        assert (driver.state, driver.due()) == (state, [])
    driver.note(number, FEED, found=1)
    assert driver.state == "ended"
    assert driver.field("items") == b"1"


def test_an_ended_site_that_is_wanted_again_goes_on_where_it_was(driver):
    driver.update(site())
    number = driver.begun(FEED)
    driver.note(number, FEED)
    driver.store.call(r.update_call(driver.keys, "news", None))
    assert driver.state == "ended"
    assert driver.due() == []

    assert driver.update(site()) == "updated"
    assert HOUR - 60 < driver.due_in() <= HOUR
    assert driver.begun(FEED) == number + 1


def test_a_site_without_a_feed_to_ask_for_has_its_round(driver):
    driver.update(site(feeds=()))

    assert driver.take().feeds == []
    driver.note(1, asked=[])
    assert driver.state == "waiting"


def test_longest_due_sites_come_first_up_to_the_limit(driver):
    for name in ("a", "b", "c"):
        driver.update(site(name))
    driver.store.call(r.Call.command("ZADD", driver.keys.sites, 5, "b", 7, "c"))

    assert driver.due(2) == ["b", "c"]
    driver.store.call(r.Call.command("HSET", driver.keys.meta, "state", "finished"))
    assert driver.due() is None


def test_failing_feed_skips_more_rounds_after_each_failure():
    record, resumes, number = r.FeedRecord(FEED, digest="good"), [], 10
    for _ in range(8):
        record = r.failed(record, "it answers 500", number, HOUR)
        resumes.append(record.resume - number - 1)
        number = record.resume

    assert resumes == [0, 1, 3, 7, 15, 24, 24, 24]  # a day has 24 hours
    assert record.digest == "good"
    assert r.failed(r.FailedPage(FEED, FEED), "x", 1, 10**6).resume == 2
    assert r.failed(record, "x", 1, 86_400 * 7).resume == 2 + 1


def test_page_is_tried_by_one_round_a_day_until_it_answers():
    page = r.FailedPage(FEED, FEED).tried_in(5, HOUR)

    assert [n for n in (4, 5, 6, 29, 30) if page.is_due(n)] == [5, 30]


def test_urls_of_a_site_are_counted_whatever_others_have_queued(driver):
    driver.update(site())
    reserved = driver.keys.partition(0).reserved
    metas = {r.META: ["news", 1]}, {r.META: 5}, {r.META: [[]]}, {r.META: {"a": 1}}, []
    for number, meta in enumerate(metas):
        item = encode({"url": FEED, "meta": meta})
        value = b"5\n0:news.example\n" + item
        driver.store.call(r.Call.command("HSET", reserved, number, value))

    (view,) = site_views(driver.store, driver.keys, 1, [("news", 0)])
    assert view.urls == 1
