"""Feeds that are followed by real nodes, which are killed, frozen and told to stop."""

import contextlib
import signal
import threading
from collections import Counter

import pytest
from conftest import SHORT, until

from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.testing import news
from tests.rawsite import RawSite, answer
from tests.warc.judges import records_in

KEYS = CrawlKeys("frontier", "feeds-1")
QUICK = {"FRONTIER_FEEDS_REFRESH": "0.2"}
FAST = {
    "DOWNLOAD_DELAY": "0",
    "CONCURRENT_REQUESTS_PER_DOMAIN": "32",
    "RETRY_TIMES": "0",
}


class Followed:
    """A host of the built-in site whose feeds a crawl follows."""

    def __init__(self, cluster, server, directory, wait="1s"):
        self.cluster, self.server = cluster, server
        self.file = directory / "feeds.toml"
        self.base = server.site.bases[0]
        self.configure(wait=wait)

    def configure(self, *lines, wait="1s", feeds=news.FEEDS, name="news"):
        listed = ", ".join(
            f'{{ url = "{self.base}{feed}", implied = ["{self.base}{news.IMPLIED}"] }}'
            for feed in feeds
        )
        fields = [f'name = "{name}"', f'wait = "{wait}"', *lines]
        text = "\n".join(["[[site]]", *fields, f"feeds = [{listed}]", ""])
        self.file.write_text(text)

    def start(self, *node_ids, **settings):
        for node_id in node_ids:
            chosen = {**QUICK, **settings}
            given = ("-a", f"feeds={self.file}")
            self.cluster.start(node_id, *given, spider="feeds", **chosen)
        self.cluster.join()

    def field(self, name):
        call = Call.command("HGET", KEYS.site("news"), name)
        return (self.cluster.store.call(call) or b"").decode("latin-1")

    def rounds(self):
        """How many rounds of the site have ended."""
        return int(self.field("round") or 0) - (self.field("state") == "crawling")

    def ends_a_round(self, count=1):
        """Wait until *count* more rounds have ended."""
        before = self.rounds()
        until(lambda: self.rounds() >= before + count, f"{count} more rounds")

    def status(self):
        """What ``frontier feeds status`` says of the first site."""
        return self.cluster.shown("feeds", "status")["sites"][0]

    def fetched(self):
        return Counter(entry.url for entry in self.server.requests().entries)

    def has_all(self):
        """Wait until all that is published was fetched."""
        wanted = news.expected(self.base, self.server.site.published)
        until(lambda: not wanted - self.fetched().keys(), "all that is published")
        return wanted

    def stop(self, *node_ids):
        for node_id in node_ids:
            self.cluster.nodes[node_id].send_signal(signal.SIGTERM)
        self.cluster.finish(*node_ids)

    def archived(self):
        """Types and URLs of the records in all WARC files."""
        found = records_in(self.cluster.warc_dir.glob("*.warc.gz*"))
        return Counter(
            (headers["WARC-Type"], headers.get("WARC-Target-URI"))
            for headers, _ in found
        )


@pytest.fixture
def followed(cluster, serve, tmp_path):
    server = serve(urls=120, hosts=1, published=6)
    return Followed(cluster, server, tmp_path)


def test_new_articles_are_fetched_once_and_unchanged_feed_is_a_revisit(followed):
    followed.start("node-1")
    followed.has_all()
    followed.server.publish(3)
    wanted = followed.has_all()
    followed.ends_a_round(2)
    followed.stop("node-1")

    counts = followed.fetched()
    items = [url for url in wanted if "/news/" in url or "/img/" in url]
    assert {url: counts[url] for url in items} == dict.fromkeys(items, 1)
    assert counts[f"{followed.base}/news"] >= 2
    archived = followed.archived()
    for url in wanted:
        assert archived["response", url] >= 1, url
    feed = followed.base + news.FEEDS[0]
    assert archived["revisit", feed] >= 1
    assert archived["response", feed] == 2
    assert all(url.startswith(followed.base) for url in counts)
    assert not [url for url in counts if url.endswith(("/hub", "/about"))]


def test_two_nodes_one_frozen_and_one_killed_lose_nothing(followed):
    followed.start("node-1", "node-2", **SHORT)
    followed.cluster.share("feeds-1")
    followed.has_all()

    def at_work():
        """The node that waits for an answer, while it does."""
        followed.server.holds.clear()
        followed.server.until = lambda *_: True
        followed.server.publish(4)
        until(lambda: followed.server.holds, "a node waits for an answer")
        return next(iter(followed.server.holds))

    frozen = followed.cluster.nodes[at_work()]
    frozen.send_signal(signal.SIGSTOP)
    followed.server.go_on()
    followed.has_all()
    followed.ends_a_round(2)
    frozen.send_signal(signal.SIGCONT)
    followed.server.publish(2)
    followed.has_all()
    doomed = at_work()
    followed.cluster.kill(doomed)
    followed.server.go_on()
    followed.server.publish(4)
    wanted = followed.has_all()
    followed.ends_a_round(2)
    (left,) = {"node-1", "node-2"} - {doomed}
    followed.stop(left)

    archived = followed.archived()
    missing = [
        url
        for url in wanted
        if not archived["response", url] + archived["revisit", url]
    ]
    assert missing == []
    site = followed.status()
    assert site["items"] == followed.server.site.published
    assert [feed["failures"] for feed in site["feeds"]] == [0, 0]
    assert followed.cluster.ask("feeds", "status", "--site", "no").returncode == 4


def test_feeds_that_fail_are_said_and_backed_off_and_others_go_on(followed):
    odd = ("/feed/broken.xml", "/feed/page.xml", "/feed/self.xml", "/feed/gone.xml")
    followed.configure(feeds=(*odd, "/feed/moved.xml"))
    followed.start("node-1", RETRY_ENABLED="False")
    items = [f"{followed.base}/news/{n}" for n in range(0, 6, 2)]
    until(lambda: set(items) <= followed.fetched().keys(), "items of a moved feed")

    def told():
        site = followed.status()
        known = {one["url"].removeprefix(followed.base): one for one in site["feeds"]}
        return known if all(known[url]["failures"] > 1 for url in odd) else None

    known = until(told, "two failures of each")

    def is_left_out():
        return (
            followed.fetched()[followed.base + "/feed/broken.xml"] < followed.rounds()
        )

    until(is_left_out, "a round without the feed that fails")
    followed.stop("node-1")

    assert [known[url]["digest"] for url in odd] == [""] * 4
    assert known["/feed/broken.xml"]["reason"] == "it answers 500"
    assert "is an HTML page" in known["/feed/page.xml"]["reason"]
    assert "redirections" in known["/feed/self.xml"]["reason"]
    assert known["/feed/moved.xml"]["moved"].endswith(news.FEEDS[0])
    assert known["/feed/moved.xml"]["failures"] == 0
    text = followed.cluster.text_of("node-1")
    assert "cannot be read: it answers 404" in text


class Newspaper:
    """A front page and two feeds of the same articles, which fail when announced.

    A feed is answered once both are asked for, or one alone for long.
    """

    FEEDS = ("/all.xml", "/front.xml")
    FAULTS = (404, 403, 500, None)
    """How an article fails, by its number; `None`: its connection is reset."""

    def __init__(self):
        self.articles = 4
        self.fails = True
        self.asked, self.answered = Counter(), Counter()
        self.open = threading.Event()
        """No article is answered while it is clear."""
        self.open.set()
        self._feeds = threading.Barrier(len(self.FEEDS))
        self.site = RawSite({}, answer=self._answer)

    def _answer(self, path, _):
        self.asked[path] += 1
        if path == "/robots.txt":
            status, kind, body = 404, "text/plain", ""
        elif path in self.FEEDS:
            with contextlib.suppress(threading.BrokenBarrierError):
                self._feeds.wait(5)
            self._feeds.reset()
            items = "".join(
                f"<item><link>{self.site.url(f'/{n}')}#{path}</link></item>"
                for n in range(self.articles)
            )
            feed = f"<rss><channel>{items}</channel></rss>"
            status, kind, body = 200, "application/rss+xml", feed
        else:
            number = path.removeprefix("/")
            if is_article := number != "front":
                self.open.wait()
            status = self._status(int(number)) if is_article else 200
            kind, body = "text/html", f"<p>{path}"
        self.answered[path, status] += 1
        if status is None:
            return b""
        return answer(body, f"Content-Type: {kind}", status=f"{status} x")

    def _status(self, number):
        return self.FAULTS[number % len(self.FAULTS)] if self.fails else 200

    def has_failed(self):
        """Whether each of the first articles has."""
        return all(self.answered[f"/{n}", fault] for n, fault in enumerate(self.FAULTS))

    def had(self, number):
        """How often an article was got."""
        return self.answered[f"/{number}", 200]

    def has_all(self):
        return all(map(self.had, range(self.articles)))


@pytest.fixture
def newspaper(followed):
    paper = Newspaper()
    pages = f'implied = ["{paper.site.url("/front")}"]'
    lines = [f'{{ url = "{paper.site.url(feed)}", {pages} }}' for feed in paper.FEEDS]
    followed.file.write_text(
        f'[[site]]\nname = "news"\nwait = "1s"\nfeeds = [{", ".join(lines)}]\n'
    )
    yield paper
    paper.site.close()


def test_articles_that_fail_when_announced_are_fetched_later_and_once(
    followed, newspaper
):
    followed.start("node-1", "node-2", **FAST)
    until(newspaper.has_failed, "failures")

    def told():
        site = followed.status()
        return site["failed"] == 4 and site  # but for the moment in which it is retried

    site = until(told, "the failures in the status")
    shown = newspaper.site.url("/0")
    until(lambda: shown in followed.cluster.ask("feeds", "status").stdout, "the same")
    newspaper.fails = False
    until(newspaper.has_all, "all articles")
    newspaper.articles += 4
    until(newspaper.has_all, "the next ones")
    followed.ends_a_round(2)
    again = newspaper.site.url("/5")
    followed.cluster.do("feeds", "refetch", again)
    until(lambda: newspaper.had(5) == 2, "the article that was asked for")
    followed.ends_a_round(2)
    unknown = followed.cluster.ask("feeds", "refetch", "http://other.example/")
    followed.stop("node-1", "node-2")

    assert [newspaper.had(n) for n in range(8)] == [1, 1, 1, 1, 1, 2, 1, 1]
    assert {one["url"].partition("#")[0] for one in site["some_failed"]} == {
        newspaper.site.url(f"/{n}") for n in range(4)
    }
    assert newspaper.answered["/front", 200] <= newspaper.articles
    assert unknown.returncode == 2
    assert "--site" in unknown.stderr


def test_a_failed_article_is_asked_for_once_while_its_answer_is_late(
    followed, newspaper
):
    followed.start("node-1", **FAST)
    until(newspaper.has_failed, "failures")

    newspaper.asked.clear()
    newspaper.open.clear()
    until(lambda: all(newspaper.asked[f"/{n}"] for n in range(4)), "a second try")
    followed.ends_a_round(3)
    newspaper.fails = False
    newspaper.open.set()
    until(newspaper.has_all, "all articles")
    followed.ends_a_round(2)
    followed.stop("node-1")

    assert [newspaper.had(n) for n in range(4)] == [1] * 4


def test_urls_that_were_excluded_are_queued_no_more(followed, newspaper):
    newspaper.articles, newspaper.fails = 60, False
    newspaper.open.clear()
    followed.start("node-1", **{**FAST, "CONCURRENT_REQUESTS_PER_DOMAIN": "2"})
    until(lambda: newspaper.asked["/0"], "an article that is asked for")
    until(lambda: followed.status()["urls"] > 40, "articles that are queued")

    followed.cluster.do("crawl", "exclude", "127.0.0.1", "--yes")
    newspaper.open.set()
    until(lambda: not followed.status()["urls"], "a status without them")
    followed.stop("node-1")


def test_a_crawl_of_feeds_ends_when_no_further_round_is_to_begin(followed):
    followed.start("node-1", FRONTIER_RECRAWL_UNTIL="3s")

    followed.cluster.finish("node-1")
    assert "RECRAWL_UNTIL has passed" in followed.cluster.text_of("node-1")
