"""Hosts that say "later" are left alone by all nodes, and asked again in time."""

import contextlib
import re
import socket
import threading
import time
from email.utils import formatdate

import pytest
from conftest import until
from scrapy import Request
from scrapy.utils.test import get_crawler

from frontier.download.back_off import LeftAlone
from frontier.queue.hosts import record_of
from frontier.store.keys import CrawlKeys
from frontier.urls.partition import partition_of
from tests.harness.cases import each
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page

KEYS = CrawlKeys("frontier", "site-1")
ONE_BY_ONE = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": "1",
    "DOWNLOAD_DELAY": "0.02",  # without one, Scrapy begins some requests more at once
    "DOWNLOAD_DELAY_JITTER": "0",
    "ROBOTSTXT_OBEY": "False",
    "FRONTIER_PARTITIONS": "64",
}
PARTITIONS = 64
BUSY = "429 Too Many Requests"


def said(status, *headers):
    return answer(b"", *headers, status=status)


NOTHING = said("404 Not Found")


class Site:
    """A host whose pages 1 to *count* are linked from ``/``.

    *answers*, one after the other, are what it says to all that it is asked when
    ``/`` was answered; then it has its pages. *asked* has when, what and by which node.
    """

    def __init__(self, count=6, answers=(), *, listener=None):
        self._pages = [f"/{number}" for number in range(count)]
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.asked = []
        self.refused = []
        """When it has said one of the answers."""
        self._site = RawSite(
            {"/robots.txt": NOTHING}, answer=self._answer, listener=listener
        )
        self.host = self._site.origin.partition("//")[2]
        self.close = self._site.close
        self.seed = self._site.url("/")

    def _answer(self, path, received):
        node = re.search(rb"(?i)x-frontier-node: (\S+)", received)
        with self._lock:
            self.asked.append((time.monotonic(), path, node and node[1].decode()))
            answer = page()
            if path == "/":
                answer = page(*self._pages)
            if path != "/" and self._answers:
                answer = self._answers.pop(0)
                self.refused.append(time.monotonic())
        return answer() if callable(answer) else answer

    def pages(self):
        """The pages that it was asked for."""
        return {path for _, path, _ in self.asked}

    def at(self, path, answer):
        """Have *path* answered by *answer*, a function of the connection."""
        self._site.pages[path] = answer


@pytest.fixture
def sites():
    made = []

    def site(*args, **options):
        made.append(Site(*args, **options))
        return made[-1]

    yield site
    for one in made:
        one.close()


def start(cluster, *hosts, nodes=("node-1", "node-2"), more=(), **settings):
    seeds = ",".join([*(host.seed for host in hosts), *more])
    for node in nodes:
        cluster.start(node, "-a", f"seeds={seeds}", **{**ONE_BY_ONE, **settings})


def noted(cluster, host):
    """What the store has of *host*."""
    key = KEYS.partition(partition_of(host, PARTITIONS)).hosts
    found = record_of(cluster.db("HGET", key, host))
    return found if found.failures else None


def all_of(host):
    return {"/", *host._pages}


def texts(cluster):
    return "".join(map(cluster.text_of, cluster.nodes))


def retry(cluster, host):
    """Have *host* asked again at once; the crawl may end before nodes say so."""
    done = cluster.ask("crawl", "retry", host)
    where = r"( on ([12]) of \2 nodes|; the crawl has ended meanwhile)"
    assert re.match(rf"1 hosts .* asked again{where}", done.stdout), done.stdout


def let_ask(cluster, host, seconds):
    """Have the store say that *host* may be asked in *seconds*; return when that is."""
    key = KEYS.partition(partition_of(host, PARTITIONS)).hosts
    record, at = noted(cluster, host), time.monotonic() + seconds
    now, _ = cluster.db("TIME")
    record.until = int(now) + 1.0 + seconds
    cluster.db("HSET", key, host, record.packed())
    return at


def test_no_node_asks_a_host_before_the_time_that_it_said_and_others_go_on(
    cluster, sites
):
    """Nor does one that goes on with the crawl when all its nodes were killed."""
    behind = time.time() - 365 * 86_400  # a server's clock: its date counts by that
    dates = [formatdate(at, usegmt=True) for at in (behind, behind + 3600)]
    refusals = [
        (said(BUSY, "Retry-After: 3600"), 3600),
        (said(BUSY, f"Date: {dates[0]}", f"Retry-After: {dates[1]}"), 3600),
        (said(BUSY, f"Retry-After: {'9' * 40}"), 7200),  # as much as is allowed
        (said(BUSY, "Retry-After: Fri, 31 Dec 9999 23:59:59 GMT"), 7200),
        (said(BUSY, "Retry-After: soon"), 1800),
        (said("503 Busy"), 1800),
    ]
    all_busy = [sites(answers=[answer]) for answer, _ in refusals]
    ruled, busy = sites(), all_busy[0]
    rules = [said(BUSY, "Retry-After: 3600")]
    asked_for_rules = []

    def robots(connection):
        asked_for_rules.append(time.monotonic())
        connection.sendall(rules.pop() if rules else NOTHING)

    ruled.at("/robots.txt", robots)
    others = [sites(30) for _ in range(3)]
    settings = {
        "ROBOTSTXT_OBEY": "True",
        "FRONTIER_BACKOFF_MIN": "1800",
        "FRONTIER_BACKOFF_RETRY_AFTER_MAX": "7200",
    }
    start(cluster, *all_busy, ruled, *others, **settings)
    until(lambda: all(len(other.asked) >= 31 for other in others), "others go on")
    for host in (*all_busy, ruled):
        until(lambda host=host: noted(cluster, host.host), "a note of it")
    until(lambda: not cluster.reserved("site-1"), "that nothing is under way")
    told = cluster.shown("crawl", "status")["back_offs"]
    assert (told["hosts"], told["unreachable"]) == (7, 0)
    (named,) = [one for one in told["named"] if one["host"] == busy.host]
    assert named["reason"] == "throttled"
    assert 0 < named["until_ms"] - time.time() * 1000 <= 1100 * 3600
    report = cluster.ask("crawl", "status").stdout
    assert "to 7 hosts that are" in report
    assert "Left alone " in report
    for host, (_, least) in zip(all_busy, refusals, strict=True):
        line = rf"{host.host} is left alone for (\d+) s \(\w+, 1 in a row\)"
        (seconds,) = re.findall(line, texts(cluster))
        assert least <= int(seconds) <= 1.1 * least
    for node in list(cluster.nodes):
        cluster.kill(node)
        cluster.do("node", "remove", node, "--force")
    assert [len(host.asked) for host in all_busy] == [2] * 6
    assert (len(asked_for_rules), ruled.asked) == (1, [])
    may_ask = {host: let_ask(cluster, host.host, 2) for host in (*all_busy, ruled)}
    start(cluster, *all_busy, ruled, *others, nodes=["node-3"], **settings)

    cluster.finish("node-3")
    for host in all_busy:
        assert min(when for when, *_ in host.asked[2:]) >= may_ask[host]
        assert host.pages() == all_of(host)
        assert len(host.asked) == 8  # and none twice but the one that was refused
        assert noted(cluster, host.host) is None
        assert f"{host.host} answers again" in cluster.text_of("node-3")
    assert may_ask[ruled] <= asked_for_rules[1] <= min(ruled.asked)[0]
    assert ruled.pages() == all_of(ruled)
    assert {len(other.asked) for other in others} == {31}
    assert "is in crawl site-1" in cluster.text_of("node-3")
    assert "dead letter" not in texts(cluster)


@pytest.fixture
def dead():
    """A port that refuses connections until somebody listens there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def links_of(port, count):
    return [f"http://127.0.0.1:{port}/{number}" for number in range(count)]


def test_a_dead_host_is_set_aside_and_asked_again_when_an_operator_wants_it(
    cluster, sites, dead
):
    port = dead.getsockname()[1]
    here, host = sites(80), f"127.0.0.1:{port}"
    start(
        cluster,
        here,
        more=links_of(port, 6),
        ROBOTSTXT_OBEY="True",
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="3",
        FRONTIER_BACKOFF_UNREACHABLE_MIN="3600",
        DOWNLOAD_DELAY="0.01",
    )
    until(lambda: noted(cluster, host), "the host is set aside")
    found = noted(cluster, host)
    assert (found.failures, found.reason) == (1, "unconnected")
    until(lambda: here.pages() == all_of(here), "others go on")
    dead.listen()
    there = sites(6, listener=dead)
    retry(cluster, host)

    cluster.finish()
    assert there.pages() >= {f"/{number}" for number in range(3, 6)}
    assert noted(cluster, host) is None
    assert f"{host} is left alone for" in texts(cluster)
    assert "retried" in cluster.ask("crawl", "status", "--log").stdout


def test_hosts_that_are_busy_or_dead_for_good_are_given_up_and_the_crawl_ends(
    cluster, sites, dead
):
    dead.listen()
    plain = f"127.0.0.1:{dead.getsockname()[1]}"  # no TLS is spoken there

    def answer():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = dead.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(said("400 Bad Request"))

    threading.Thread(target=answer, daemon=True).start()
    # So few that a busy machine gives all of them up before the host is asked again.
    busy, other = sites(8, answers=[said(BUSY)] * 1_000), sites(20)
    links = [f"https://{plain}/{number}" for number in range(6)]
    links += [f"http://no-such-host.invalid/{number}" for number in range(9)]
    start(
        cluster,
        busy,
        other,
        more=links,
        nodes=["node-1"],
        FRONTIER_BACKOFF_MIN="0.8",
        FRONTIER_BACKOFF_TIMES="2",
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="4",
        FRONTIER_BACKOFF_UNREACHABLE_MIN="0.6",
        FRONTIER_BACKOFF_UNREACHABLE_TIMES="1",
    )

    assert cluster.wait() == [1]
    text = cluster.text_of("node-1")
    assert "no-such-host.invalid is left alone for 1 s (unresolved, 1 in a row)" in text
    for host, times, reason in (
        (busy.host, 2, "throttled"),
        (plain, 1, "tls"),
        ("no-such-host.invalid", 1, "unresolved"),
    ):
        told = f"{host} is given up after {times} back-offs in a row"
        assert f"{told} ({reason})" in text
    assert len(busy.refused) == 3
    assert "23 requests to 3 hosts were given up" in text
    assert "'frontier/backoff/given_up': 23" in text
    assert other.pages() == all_of(other)


SPIDER = """
import scrapy

class BusySpider(scrapy.Spider):
    name = "busy"
    handle_httpstatus_list = [429]
    custom_settings = {{"ROBOTSTXT_OBEY": False, **{settings}}}

    async def start(self):
        yield scrapy.Request("{seed}", meta={meta}, priority=5)

    def parse(self, response):
        self.logger.info("heard %d, %s", response.status, dict(response.meta))
"""


@pytest.fixture
def heard(cluster, tmp_path):
    """What a spider of its own hears of one page, and what it was asked for."""

    def heard(site, meta=None, **settings):
        text = SPIDER.format(seed=f"{site.seed}0", meta=meta or {}, settings=settings)
        scrapy_project(tmp_path, text)
        cluster.start("node-1", spider="busy", cwd=tmp_path)
        cluster.wait()
        found = re.findall(r"heard (\d+), (.*)", cluster.text_of("node-1"))
        ((status, told),) = found
        return int(status), told

    return heard


def test_a_page_is_tried_more_often_than_retry_times(heard, sites):
    quick = {"FRONTIER_BACKOFF_MIN": 0.4, "FRONTIER_BACKOFF_GROWTH": 1}
    busy = sites(answers=[said(BUSY)] * 5)

    status, meta = heard(busy, **quick)
    assert status == 200
    assert "'backoff_times': 5" in meta
    assert "retry_times" not in meta


@pytest.mark.parametrize(
    ("meta", "settings"),
    [({"dont_retry": True}, {}), ({}, {"RETRY_HTTP_CODES": [500]})],
)
def test_busy_answer_that_is_not_retried_reaches_the_spider(
    heard, sites, meta, settings
):
    busy = sites(answers=[said(BUSY)] * 5)

    status, _ = heard(busy, meta, **settings)
    assert status == 429
    assert len(busy.asked) == 1


@each(
    ("meta", "settings", "is_retried"),
    [
        ({}, {}, True),
        ({"max_retry_times": 1}, {"RETRY_TIMES": 0}, True),
        ({"max_retry_times": 0}, {}, False),
        ({}, {"RETRY_ENABLED": False}, False),
        ({}, {"RETRY_TIMES": 0}, False),
    ],
)
def test_scrapys_settings_say_whether_a_page_is_retried(meta, settings, is_retried):
    left_alone = LeftAlone(get_crawler(settings_dict=settings))

    assert left_alone.is_retried(Request("http://a.example/", meta=meta)) is is_retried


def test_after_so_many_tries_scrapy_and_the_spider_have_the_answer(heard, sites):
    quick = {"FRONTIER_BACKOFF_MIN": 0.05, "FRONTIER_BACKOFF_MAX": 0.06}
    busy = sites(answers=[said("503 Broken"), page()] * 20)

    # of a host that answers others, a page that says 503 is tried as Scrapy does
    assert heard(busy, RETRY_TIMES=1, **quick)[0] == 200
    assert len(busy.asked) == 2


def test_requests_of_a_given_up_host_are_dead_letters_and_requeued(
    cluster, sites, dead
):
    """Which the exit code and the logs tell of, and which can be put back."""
    port = dead.getsockname()[1]
    links, host = links_of(port, 20), f"127.0.0.1:{port}"
    live = [sites(10) for _ in range(2)]
    start(
        cluster,
        *live,
        more=links,
        nodes=["node-1"],
        ROBOTSTXT_OBEY="True",
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="4",
        FRONTIER_BACKOFF_UNREACHABLE_MIN="0.3",
        FRONTIER_BACKOFF_UNREACHABLE_TIMES="1",
    )

    assert cluster.wait() == [1]
    assert "frontier crawl requeue" in cluster.text_of("node-1")
    letters = cluster.shown("crawl", "dead")["letters"]
    why = f"its host {host} is given up: it cannot be connected to"
    assert {one["url"] for one in letters} == set(links)
    assert all(one["reason"].startswith(why) for one in letters)
    seen = cluster.ask("crawl", "status")
    assert seen.returncode == 6
    totals = cluster.shown("crawl", "status")["totals"]
    assert totals["new"] == 2 * 11 + 20  # a try more of a page is not new
    assert "20 requests were given up" in seen.stderr
    told = cluster.ask("explain", links[-1], "--logs", str(cluster.warc_dir))
    assert f"It was given up: {why}" in told.stdout
    assert "its host is given up, as it has not answered" in told.stdout
    assert "middleware" not in told.stdout

    dead.listen()
    there = sites(20, listener=dead)
    done = cluster.ask("crawl", "requeue", "--all")
    assert "20 requests are queued again" in done.stdout
    assert "site-1 had ended; to fetch them" in done.stderr
    start(cluster, *live, nodes=["node-2"], more=links)
    cluster.finish("node-2")
    assert there.pages() == {f"/{number}" for number in range(20)}
    assert "is in crawl site-1" in cluster.text_of("node-2")
    cluster.do("crawl", "status")
