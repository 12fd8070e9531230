"""Hosts that say "later" are left alone by all nodes, and asked again in time."""

import contextlib
import json
import re
import signal
import socket
import threading
import time
from email.utils import formatdate

import pytest
from conftest import SHORT, home_of, owned, until

from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.urls.partition import partition_of
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite

KEYS = CrawlKeys("frontier", "site-1")
ONE_BY_ONE = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": "1",
    "DOWNLOAD_DELAY": "0.02",  # without one, Scrapy begins some requests more at once
    "DOWNLOAD_DELAY_JITTER": "0",
    "ROBOTSTXT_OBEY": "False",
}


def said(status, *headers, body=b""):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def page(*paths):
    body = b"".join(b'<a href="%s">x</a>' % path.encode() for path in paths)
    return said("200 OK", "Content-Type: text/html", body=body)


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
        self._site = RawSite({}, answer=self._answer, listener=listener)
        self.host = self._site.origin.partition("//")[2]
        self.close = self._site.close
        self.seed = self._site.url("/")

    def _answer(self, connection, received):
        path = received.split(b" ")[1].decode()
        node = re.search(rb"(?i)x-frontier-node: (\S+)", received)
        with self._lock:
            self.asked.append((time.monotonic(), path, node and node[1].decode()))
            answer = page()
            if path == "/":
                answer = page(*self._pages)
            if path != "/" and self._answers:
                answer = self._answers.pop(0)
                self.refused.append(time.monotonic())
        connection.sendall(answer() if callable(answer) else answer)

    def pages(self):
        """The pages that it was asked for."""
        return {path for _, path, _ in self.asked}

    def gaps(self):
        """After each refusal, the seconds until it was asked again."""
        times = [when for when, *_ in self.asked]
        return [
            min((t for t in times if t > at), default=float("inf")) - at
            for at in self.refused
        ]


@pytest.fixture
def sites():
    made = []

    def site(*args, **options):
        made.append(Site(*args, **options))
        return made[-1]

    yield site
    for each in made:
        each.close()


def start(cluster, *hosts, nodes=("node-1", "node-2"), more=(), **settings):
    seeds = ",".join([*(host.seed for host in hosts), *more])
    for node in nodes:
        cluster.start(node, "-a", f"seeds={seeds}", **{**ONE_BY_ONE, **settings})


def noted(cluster, host, partitions=1024):
    """What the store has of *host*."""
    key = KEYS.partition(partition_of(host, partitions)).back_off
    return cluster.store.call(Call.command("HGET", key, host))


def nodes_after(site):
    """Who asked after the refusal; what was refused keeps the headers that it had."""
    (refused,) = site.refused
    path = max(one for one in site.asked if one[0] <= refused)[1]
    return {node for when, p, node in site.asked if when > refused and p != path}


BUSY = "429 Too Many Requests"


def all_of(host):
    return {"/", *host._pages}


def let_ask(cluster, host, seconds):
    """Have the store say that *host* may be asked in *seconds*; return when that is."""
    key = KEYS.partition(partition_of(host, 1024)).back_off
    _, rest = noted(cluster, host).split(b" ", 1)
    at = time.monotonic() + seconds
    now, _ = cluster.store.call(Call.command("TIME"))
    until = (int(now) + 1 + seconds) * 1000
    cluster.store.call(Call.command("HSET", key, host, b"%d %b" % (until, rest)))
    return at


def test_no_node_asks_a_host_before_the_time_that_it_said_and_others_go_on(
    cluster, sites
):
    """Nor does one that goes on with the crawl when it was interrupted."""
    busy = sites(answers=[said(BUSY, "Retry-After: 3600")])
    others = [sites(30) for _ in range(3)]
    start(cluster, busy, *others)
    until(lambda: all(len(other.asked) >= 31 for other in others), "others go on")
    until(lambda: noted(cluster, busy.host), "a note of it")
    assert len(busy.asked) == 2
    for node in cluster.nodes.values():
        node.send_signal(signal.SIGTERM)
    cluster.wait()
    assert len(busy.asked) == 2
    told = json.loads(cluster.ask("crawl", "status", "--json").stdout)["back_offs"]
    (named,) = told.pop("named")
    assert (told["hosts"], told["unreachable"]) == (1, 0)
    assert (named["host"], named["reason"]) == (busy.host, "throttled")
    assert 0 < named["until_ms"] - time.time() * 1000 <= 1100 * 3600
    report = cluster.ask("crawl", "status").stdout
    assert "Hosts left alone (1, 0 cannot be reached):" in report
    assert re.search(rf"{busy.host} .* it said 429 +1 *\n", report)
    may_ask = let_ask(cluster, busy.host, 2)
    start(cluster, busy, *others, nodes=["node-3"])

    assert cluster.wait("node-3") == [0]
    assert min(when for when, *_ in busy.asked[2:]) >= may_ask
    assert busy.pages() == all_of(busy)
    assert len(busy.asked) == 8  # and none was asked for twice but the one refused
    assert {len(other.asked) for other in others} == {31}
    assert "is in crawl site-1" in cluster.text_of("node-3")


def test_many_that_are_on_the_way_are_one_failure(cluster, sites):
    together = threading.Barrier(4)

    def refuse():
        together.wait(240)
        return said(BUSY, "Retry-After: 3")

    busy = sites(20, answers=[refuse] * 4)
    four = {"CONCURRENT_REQUESTS_PER_DOMAIN": "4", "DOWNLOAD_DELAY": "0"}
    start(cluster, busy, **four, FRONTIER_BACKOFF_MIN="3.0")

    assert cluster.wait() == [0, 0]
    assert busy.pages() == all_of(busy)
    assert len(busy.asked) == 21 + 4
    on_the_way = busy.refused[-1] + 1
    back = min(when for when, *_ in busy.asked if when > on_the_way)
    assert back - busy.refused[-1] >= 3
    text = cluster.text_of("node-1") + cluster.text_of("node-2")
    assert text.count("is left alone for") == 1
    assert f"{busy.host} is left alone for 3 s (throttled, 1 in a row)" in text


@pytest.mark.chaos
def test_it_holds_when_the_node_that_heard_it_is_killed(cluster, sites):
    seconds = 20
    busy = sites(answers=[said(BUSY, f"Retry-After: {seconds}")])
    other = sites(3)
    start(cluster, busy, other, **SHORT)
    until(lambda: busy.refused, "the refusal")
    until(lambda: noted(cluster, busy.host), "a note of it")
    heard = busy.asked[-1][2]
    left = {"node-1": "node-2", "node-2": "node-1"}[heard]
    cluster.kill(heard)

    assert cluster.wait(left) == [0]
    assert min(busy.gaps()) >= seconds
    assert busy.pages() == all_of(busy)
    assert nodes_after(busy) == {left}


def test_it_holds_when_the_host_changes_hands(cluster, sites):
    """To a node that comes later, in whose part of the ring the host is."""
    seconds = 10
    while True:
        busy = sites(answers=[said(BUSY, f"Retry-After: {seconds}")])
        if owned([home_of(busy.seed)], ("node-1", "node-2"))["node-2"]:
            break
    start(cluster, busy, nodes=["node-1"])
    until(lambda: busy.refused, "the refusal")
    start(cluster, busy, nodes=["node-2"])

    assert cluster.wait() == [0, 0]
    assert min(busy.gaps()) >= seconds
    assert busy.pages() == all_of(busy)
    assert nodes_after(busy) == {"node-2"}


@pytest.mark.parametrize(
    "shape",
    [
        {"FRONTIER_HOST_SHARDS": "8"},
        pytest.param({"FRONTIER_QUEUE_KEY": "url"}, marks=pytest.mark.chaos),
    ],
)
def test_nodes_that_share_a_host_leave_it_alone_together(cluster, sites, shape):
    """The others hear of it in a quarter of a second, or when this machine lets them.

    What is said to them counts as well. An answer to what they ask until then ends
    nothing.
    """
    answer = said(BUSY, "Retry-After: 6")
    busy, other = sites(150, answers=[page()] * 20 + [answer]), sites(150)
    start(cluster, busy, other, **shape, DOWNLOAD_DELAY="0.05")

    assert cluster.wait() == [0, 0]
    assert busy.pages() == all_of(busy)
    assert other.pages() == all_of(other)
    assert {node for *_, node in busy.asked} == {"node-1", "node-2"}
    refused = busy.refused[-1]
    assert min(when for when, *_ in busy.asked if when > refused + 3) >= refused + 6
    between = [when for when, *_ in other.asked if refused < when < refused + 6]
    assert between or max(when for when, *_ in other.asked) < refused
    keys = cluster.store.call(Call.command("EXISTS", KEYS.back_off()))
    assert keys == 0  # it has answered since


def test_a_date_is_kept_by_the_clock_of_the_server(cluster, sites):
    """Which is a year behind; its date is told in whole seconds."""
    now = time.time() - 365 * 86_400
    later = f"Retry-After: {formatdate(now + 4, usegmt=True)}"
    dated = said(BUSY, f"Date: {formatdate(now, usegmt=True)}", later)
    busy = sites(answers=[dated])
    start(cluster, busy)

    assert cluster.wait() == [0, 0]
    assert busy.gaps()[0] >= 4
    text = cluster.text_of("node-1") + cluster.text_of("node-2")
    assert f"{busy.host} is left alone for 4 s (throttled, 1 in a row)" in text
    assert busy.pages() == all_of(busy)


def test_each_back_off_is_longer_until_the_host_answers(cluster, sites):
    again = [said("503 Busy")] * 2 + [said(BUSY, "Retry-After: soon")] * 2
    busy = sites(answers=again)
    start(cluster, busy, FRONTIER_BACKOFF_MIN="0.25", FRONTIER_BACKOFF_GROWTH="2")

    assert cluster.wait() == [0, 0]
    for gap, least in zip(busy.gaps(), (0.25, 0.5, 1.0, 2.0), strict=True):
        assert least <= gap
    assert busy.pages() == all_of(busy)
    assert noted(cluster, busy.host) is None


def test_hostile_values_are_cut_to_what_is_allowed(cluster, sites):
    hostile = [b"9" * 40, b"Fri, 31 Dec 9999 23:59:59 GMT"]
    answers = [said(BUSY, f"Retry-After: {value.decode()}") for value in hostile]
    busy = sites(answers=answers)
    most = {"FRONTIER_BACKOFF_RETRY_AFTER_MAX": "2", "FRONTIER_BACKOFF_MIN": "0.5"}
    start(cluster, busy, **most)

    assert cluster.wait() == [0, 0]
    assert all(gap >= 2 for gap in busy.gaps())
    text = cluster.text_of("node-1") + cluster.text_of("node-2")
    for times in (1, 2):
        told = f"{busy.host} is left alone for 2 s (throttled, {times} in a row)"
        assert told in text
    assert busy.pages() == all_of(busy)


def test_a_host_that_never_answers_is_given_up_and_the_crawl_ends(cluster, sites):
    busy = sites(40, answers=[said(BUSY)] * 1_000)
    other = sites(3)
    start(
        cluster,
        busy,
        other,
        nodes=["node-1"],
        FRONTIER_BACKOFF_MIN="0.2",
        FRONTIER_BACKOFF_MAX="1e4",
        FRONTIER_BACKOFF_GROWTH="30",
        FRONTIER_BACKOFF_TIMES="2",
    )

    assert cluster.wait() == [1]
    assert len(busy.refused) == 3
    text = cluster.text_of("node-1")
    assert f"{busy.host} is given up after 2 back-offs in a row (throttled)" in text
    assert "40 requests to 1 hosts were given up" in text
    assert "'frontier/backoff/given_up': 40" in text
    assert other.pages() == all_of(other)


def test_robots_txt_that_says_later_is_asked_for_later(cluster, sites):
    """And nothing before it; no page becomes a dead letter."""
    busy = sites()
    refused = []

    def robots(connection):
        refused.append(time.monotonic())
        is_first = len(refused) == 1
        none = said("404 Not Found")
        connection.sendall(said(BUSY, "Retry-After: 3") if is_first else none)

    busy._site.pages["/robots.txt"] = robots
    start(cluster, busy, ROBOTSTXT_OBEY="True")

    assert cluster.wait() == [0, 0]
    assert refused[1] - refused[0] >= 3
    assert min(when for when, *_ in busy.asked) >= refused[1]
    assert busy.pages() == all_of(busy)
    assert "dead letter" not in cluster.text_of("node-1") + cluster.text_of("node-2")


@pytest.fixture
def dead():
    """A port that refuses connections until somebody listens there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held


def test_a_dead_host_is_set_aside_and_asked_again_when_it_may_be_back(
    cluster, sites, dead
):
    port = dead.getsockname()[1]
    links = [f"http://127.0.0.1:{port}/{number}" for number in range(6)]
    here = sites(80)
    host = f"127.0.0.1:{port}"
    start(
        cluster,
        here,
        more=links,
        ROBOTSTXT_OBEY="True",
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="3",
        FRONTIER_BACKOFF_UNREACHABLE_MIN="8",
        DOWNLOAD_DELAY="0.01",
    )
    until(lambda: noted(cluster, host), "the host is set aside")
    assert noted(cluster, host).split(b" ")[2:] == [b"1", b"unconnected"]
    until(lambda: len(here.asked) > 50, "others go on")
    dead.listen()
    there = sites(6, listener=dead)

    assert cluster.wait() == [0, 0]
    assert here.pages() >= {f"/{number}" for number in range(80)}
    assert there.pages() >= {f"/{number}" for number in range(3, 6)}
    assert noted(cluster, host) is None
    logs = cluster.text_of("node-1") + cluster.text_of("node-2")
    assert f"{host} is left alone for" in logs
    assert f"{host} answers again" in logs


def test_a_name_that_is_not_known_is_given_up_in_time(cluster, sites):
    links = [f"http://no-such-host.invalid/{number}" for number in range(9)]
    here = sites(20)
    start(
        cluster,
        here,
        more=links,
        nodes=["node-1"],
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="4",
        FRONTIER_BACKOFF_UNREACHABLE_MIN="1",
        FRONTIER_BACKOFF_UNREACHABLE_TIMES="1",
    )

    assert cluster.wait() == [1]
    text = cluster.text_of("node-1")
    assert "no-such-host.invalid is left alone for 1 s (unresolved, 1 in a row)" in text
    assert "no-such-host.invalid is given up after 1 back-offs in a row" in text
    assert here.pages() == all_of(here)


def test_a_host_that_breaks_off_tls_is_set_aside(cluster, sites, dead):
    """It speaks plain HTTP there."""
    dead.listen()
    host = f"127.0.0.1:{dead.getsockname()[1]}"

    def answer():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = dead.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(said("400 Bad Request"))

    threading.Thread(target=answer, daemon=True).start()
    start(
        cluster,
        sites(3),
        more=[f"https://{host}/{number}" for number in range(6)],
        nodes=["node-1"],
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="4",
        FRONTIER_BACKOFF_UNREACHABLE_TIMES="0",
    )

    assert cluster.wait() == [1]
    text = cluster.text_of("node-1")
    assert f"{host} is given up after 0 back-offs in a row (tls)" in text


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
    quick = {"FRONTIER_BACKOFF_MIN": 0.05, "FRONTIER_BACKOFF_GROWTH": 1}
    busy = sites(answers=[said(BUSY)] * 5)

    status, meta = heard(busy, **quick)
    assert status == 200
    assert "'backoff_times': 5" in meta
    assert "retry_times" not in meta


@pytest.mark.parametrize(
    ("meta", "settings"),
    [
        ({"dont_retry": True}, {}),
        ({"max_retry_times": 0}, {}),
        ({}, {"RETRY_ENABLED": False}),
        ({}, {"RETRY_TIMES": 0}),
        ({}, {"RETRY_HTTP_CODES": [500]}),
        ({}, {"FRONTIER_BACKOFF_TIMES": 0, "RETRY_ENABLED": False}),
    ],
)
def test_what_is_not_to_be_retried_reaches_its_spider(heard, sites, meta, settings):
    busy = sites(answers=[said(BUSY)] * 5)

    status, _ = heard(busy, meta, **settings)
    assert status == 429
    assert len(busy.asked) == 1


def test_after_so_many_tries_scrapy_and_the_spider_have_the_answer(heard, sites):
    quick = {"FRONTIER_BACKOFF_MIN": 0.05, "FRONTIER_BACKOFF_MAX": 0.06}
    busy = sites(answers=[said("503 Broken"), page()] * 20)

    # of a host that answers others, a page that says 503 is tried as Scrapy does
    assert heard(busy, RETRY_TIMES=1, **quick)[0] == 200
    assert len(busy.asked) == 2


def links_of(port, count):
    return [f"http://127.0.0.1:{port}/{number}" for number in range(count)]


def test_what_a_dead_host_makes_us_give_up_is_a_dead_letter(cluster, sites, dead):
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
        FRONTIER_BACKOFF_UNREACHABLE_MIN="1",
        FRONTIER_BACKOFF_UNREACHABLE_TIMES="1",
    )

    assert cluster.wait() == [1]
    assert "frontier crawl requeue" in cluster.text_of("node-1")
    letters = json.loads(cluster.ask("crawl", "dead", "--json").stdout)["letters"]
    why = f"its host {host} is given up: it cannot be connected to"
    assert {one["url"] for one in letters} == set(links)
    assert all(one["reason"].startswith(why) for one in letters)
    seen = cluster.ask("crawl", "status")
    assert seen.returncode == 6
    totals = json.loads(cluster.ask("crawl", "status", "--json").stdout)["totals"]
    assert totals["new"] == 2 * 11 + 20  # a try more of a page is not new
    assert "20 requests were given up" in seen.stderr
    told = cluster.ask("url", "explain", links[-1], "--logs", str(cluster.warc_dir))
    assert f"It was given up: {why}" in told.stdout
    assert "its host is given up, as it has not answered" in told.stdout
    assert "middleware" not in told.stdout

    dead.listen()
    there = sites(20, listener=dead)
    done = cluster.ask("crawl", "requeue", "--all")
    assert "20 requests are queued again" in done.stderr
    assert "site-1 had ended and can be resumed" in done.stderr
    start(cluster, *live, nodes=["node-2"], more=links)
    assert cluster.wait("node-2") == [0]
    assert there.pages() == {f"/{number}" for number in range(20)}
    assert "is in crawl site-1" in cluster.text_of("node-2")
    assert cluster.ask("crawl", "status").returncode == 0


def test_a_host_is_asked_again_at_once_if_an_operator_wants_it(cluster, sites, dead):
    port = dead.getsockname()[1]
    start(
        cluster,
        more=links_of(port, 20),
        nodes=["node-1"],
        FRONTIER_BACKOFF_UNREACHABLE_AFTER="4",
        FRONTIER_BACKOFF_UNREACHABLE_MIN="3600",
    )
    until(lambda: noted(cluster, f"127.0.0.1:{port}"), "the host is left alone")
    dead.listen()
    there = sites(20, listener=dead)
    done = cluster.ask("crawl", "retry", f"127.0.0.1:{port}")

    assert "1 hosts that were left alone are asked again on 1 of 1" in done.stdout
    assert cluster.wait() == [0]
    assert there.pages() == {f"/{number}" for number in range(20)}
    assert "retried" in cluster.ask("crawl", "log").stdout
