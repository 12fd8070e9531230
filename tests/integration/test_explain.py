"""Why URLs were not crawled: prepared ones, each with a reason that is known."""

import json
import threading
import zipfile

import pytest
from conftest import DEADLINE, PARTITIONS, ROOT, until

from frontier.queue.hosts import record_of
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.urls.partition import partition_of
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page, redirect

KEYS = CrawlKeys("frontier", "asked-1")
NODES = ("node-1", "node-2")
SPIDER = """
import scrapy
from spiders.site import SiteSpider


class AskedSpider(SiteSpider):
    name = "asked"

    async def start(self):
        async for request in super().start():
            yield request
        yield scrapy.Request(self.later, meta={"frontier_due": 3600})
"""
SPIDER_OF_ITS_OWN = """
import scrapy
from scrapy.http.request import NO_CALLBACK


class OwnSpider(scrapy.Spider):
    name = "own"
    start_urls = ["{home}"]
    allowed_domains = ["127.0.0.1"]

    async def parse(self, response):
        media = scrapy.Request("{media}", callback=NO_CALLBACK)
        await self.crawler.engine.download_async(media)
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)
"""
SETTINGS = """
ROBOTSTXT_OBEY = True
FRONTIER_HOST_MAX_PAGES = 12
CONCURRENT_REQUESTS = 64
FRONTIER_WARC_EXCLUDE = ["url:/left-out"]
"""
METADATA = "http://169.254.169.254/latest"


class Sites:
    """Sites whose URLs have reasons of all kinds.

    Each has an address of its own: Scrapy has one slot for all ports of a host.
    """

    def __init__(self):
        self.excluded, self.released = threading.Event(), threading.Event()
        self.other = RawSite({"/": page(), "/landing": page()}, address="127.0.0.71")
        links = ["/page", "/away", "/private/x", "/a/a/a/a", "/gone", "/left-out"]
        self.main = RawSite(
            {
                "/robots.txt": answer("User-agent: *\nDisallow: /priv"),
                "/": page(*links, "/late", self.other.url("/linked")),
                "/page": page("/copy", text="the same"),
                "/copy": page("/copy", text="the same"),
                "/away": redirect(self.other.url("/landing")),
                "/left-out": page(text="left out"),
                "/late": self._late,
            },
            address="127.0.0.72",
        )
        numbers = [f"/{number}" for number in range(1, 41)]
        pages = {"/": page(*numbers), **dict.fromkeys(numbers, self._slow)}
        self.slow = RawSite(pages, address="127.0.0.73")
        busy = answer(b"", "Retry-After: 3600", status="429 Too Many Requests")
        self.busy = RawSite({"/": page("/busy"), "/busy": busy}, address="127.0.0.74")
        oops = answer(status="500 Oops")
        self.broken = RawSite({"/robots.txt": oops}, address="127.0.0.75")
        pages = {"/robots.txt": self._late, "/": page()}
        self.held = RawSite(pages, address="127.0.0.77")
        many = [f"/{number}" for number in range(40)]
        pages = {"/": page(*many), **dict.fromkeys(many, page())}
        self.large = RawSite(pages, address="127.0.0.76")
        self.all = (self.main, self.slow, self.busy, self.broken, self.large, self.held)
        self.seeds = [*(site.url("/") for site in self.all), METADATA]

    def _late(self, connection):
        self.excluded.wait(DEADLINE)
        connection.sendall(page("/secret/x"))

    def _slow(self, connection):
        self.released.wait(DEADLINE)
        connection.sendall(page())

    def close(self):
        self.excluded.set()
        self.released.set()
        for site in (*self.all, self.other):
            site.close()


def home_of(url):
    return partition_of(url.split("/")[2], PARTITIONS)


@pytest.fixture
def sites():
    made = Sites()
    yield made
    made.close()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with the spider above."""
    monkeypatch.setenv("EXTRA", str(ROOT))
    return scrapy_project(tmp_path / "project", SPIDER, SETTINGS)


class Asking:
    """Asks ``frontier explain``, each time in a process of its own."""

    def __init__(self, cluster, cwd=ROOT):
        self._cluster = cluster
        self._cwd = cwd
        self.warcs = str(cluster.warc_dir)

    def text(self, url, *words):
        words = words or ("--warcs", self.warcs)
        done = self._cluster.ask("explain", url, *words, cwd=self._cwd)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def __call__(self, url, *words):
        words = words or ("--warcs", self.warcs)
        done = self.text(url, "--json", *words)
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        assert found["sure"] == (done.returncode == 0), done.stdout
        return found

    def until(self, url, reason):
        """What is said once *reason* is: a busy node may be silent for a while."""

        def is_said():
            found = self(url)
            return found if found["reason"] == reason else None

        return until(is_said, f"{url} is {reason}")

    def reason(self, url, *words):
        return self(url, *words)["reason"]


def attempts(cluster):
    """URL and status of each line of the crawl logs."""
    lines = [
        line.split()
        for path in cluster.warc_dir.glob("*.crawl.log*")
        for line in path.read_text().splitlines()
    ]
    return {(words[3], words[1]) for words in lines if len(words) == 12}


def has_come_to_a_stand(cluster, sites):
    """Whether all that can happen while `Sites.released` waits has happened."""
    awaited = {
        (sites.main.url("/gone"), "404"),
        (sites.main.url("/copy"), "200"),
        (sites.main.url("/left-out"), "200"),
        (sites.held.url("/"), "-5000"),
        (sites.main.url("/private/x"), "-9998"),
        (sites.other.url("/landing"), "-5000"),
        (sites.busy.url("/busy"), "429"),
        (METADATA, "-5001"),
    }
    ask = cluster.store.call
    large = KEYS.partition(home_of(sites.large.url("/"))).hosts
    host = sites.large.url("/").split("/")[2]
    broken = KEYS.partition(home_of(sites.broken.url("/"))).dead
    return (
        awaited <= attempts(cluster)
        and sites.slow.requests.keys() - {"/", "/robots.txt"}
        and record_of(ask(Call.command("HGET", large, host))).skipped == 29
        and ask(Call.command("LLEN", broken)) == 1
    )


def text_of(found, step):
    return [one["text"] for one in found["evidence"] if one["step"] == step]


def test_each_url_has_the_reason_that_it_has(cluster, sites, project):
    for node in NODES:
        words = ["-a", f"seeds={','.join(sites.seeds)}"]
        words += ["-a", f"later={sites.slow.url('/later')}"]
        cluster.start(node, *words, spider="asked", cwd=project)
    cluster.join()
    main, slow = sites.main, sites.slow
    prefix = main.url("/secret/")
    until(lambda: sites.held.requests, "a request that waits for robots.txt")
    for excluded in (prefix, sites.held.url("/")):
        done = cluster.do("crawl", "exclude", "--prefix", excluded, "--yes")
    sites.excluded.set()
    until(lambda: has_come_to_a_stand(cluster, sites), "all that can happen")
    ask = Asking(cluster, project)

    found = ask(main.url("/page"))
    assert (found["reason"], found["fetched"]) == ("fetched", True)
    assert "with status 200" in found["answer"]
    assert main.url("/") in text_of(found, "found on")[0]
    found = ask(main.url("/copy"))
    assert f"as a revisit of {main.url('/page')}" in found["answer"]
    assert (
        f": revisit, status 200, of {main.url('/page')}" in text_of(found, "record")[0]
    )
    assert "with status 404" in ask(main.url("/gone"))["answer"]
    found = ask(main.url("/left-out"))
    assert "has no record, as the crawl's rules leave it out" in found["answer"]
    found = ask(main.url("/away"))
    assert f"It led to {sites.other.url('/landing')} (it is out of" in found["answer"]

    started = next(path for path in slow.requests if path[1:].isdigit())
    waits = [f"/{n}" for n in range(1, 41) if f"/{n}" != started]
    found = ask.until(slow.url(started), "in_progress")
    assert any(f"the node {node} fetches it" in found["answer"] for node in NODES)
    last = slow.url(waits[-1])
    found = ask.until(last, "queued")
    assert " in the queue 0:127.0.0.73:" in found["answer"]
    assert slow.url("/") in text_of(found, "found on")[0]

    expected = {
        sites.other.url("/landing"): ("out_of_scope", "status -5000"),
        sites.other.url("/linked"): ("out_of_scope", "computed, not recorded"),
        main.url("/private/x"): ("robots", "robots.txt forbids it"),
        main.url("/a/a/a/a"): ("trap", "its path repeats itself"),
        main.url("/secret/x"): ("excluded", prefix),
        sites.held.url("/"): ("excluded", "--remove --crawl asked-1"),
        main.url("/never-linked"): ("not_found", "no page that the frontier saw led"),
        METADATA: ("address", "it leads to a metadata address"),
        sites.busy.url("/busy"): ("host_left_alone", "it said 429"),
        sites.broken.url("/"): ("given_up", "robots.txt of its host cannot be fetched"),
        sites.large.url("/39"): ("host_quota", "12 pages"),
        slow.url("/later"): ("waiting", "waits until it is due"),
    }
    for url, (reason, text) in expected.items():
        done = ask.text(url, "--json", "--warcs", ask.warcs)
        found = json.loads(done.stdout)
        assert (found["reason"], done.returncode) == (reason, 0), done.stdout
        assert not found["fetched"] or "429" in text
        assert text in done.stdout

    cluster.do("crawl", "pause")
    assert ask.reason(last) == "paused"
    cluster.do("crawl", "resume")
    for node in NODES:
        cluster.kill(node)
        done = cluster.do("node", "remove", node, "--force", "--crawl", "asked-1")
    assert ask.reason(last) == "no_node"
    cluster.do("crawl", "end", "--crawl", "asked-1", "--yes")
    assert ask.reason(last) == "crawl_ended"
    for url in (main.url("/secret/x"), sites.held.url("/")):
        found = ask(url)
        assert found["reason"] == "excluded"
        assert found["next"].startswith("make it a seed of the next crawl")


def test_what_a_spider_drops_or_fetches_by_itself_is_not_known_for_sure(
    cluster, tmp_path
):
    site = RawSite({"/": page("http://127.0.0.78/dropped"), "/media": page()})
    spider = SPIDER_OF_ITS_OWN.format(home=site.url("/"), media=site.url("/media"))
    cwd = scrapy_project(tmp_path / "project", spider)
    cluster.start("node-1", spider="own", cwd=cwd)
    cluster.finish("node-1")
    site.close()
    ask = Asking(cluster, cwd)
    words = ("--crawl", "own-1", "--warcs", ask.warcs)

    dropped = ask("http://127.0.0.78/dropped", *words)
    media = ask(site.url("/media"), *words)

    assert (dropped["reason"], dropped["sure"]) == ("not_found", False)
    assert "allowed_domains" in dropped["answer"]
    assert media["reason"] == "fetched"
    assert "it is a seed" not in text_of(media, "found on")[0]


def test_files_of_an_earlier_crawl_of_the_same_name_say_nothing_of_this(
    cluster, tmp_path
):
    site = RawSite(dict.fromkeys(["/old", "/new"], page()))
    waczs = tmp_path / "waczs"
    cluster.start("node-1", "-a", f"seeds={site.url('/old')}")
    cluster.finish("node-1")
    earlier = sorted(path.name for path in cluster.warc_dir.iterdir())
    cluster.servers.clear()  # the store was lost
    seeds = f"seeds={site.url('/new')}"
    cluster.start("node-1", "-a", seeds, FRONTIER_WACZ_DIR=waczs)
    cluster.finish("node-1")
    site.close()
    ask = Asking(cluster)

    found = ask(site.url("/old"))

    assert (found["reason"], found["fetched"]) == ("not_found", False)
    (gap,) = found["not_looked_at"]
    text = "2 files of another crawl with the id site-1"
    assert gap["what"] == text
    assert ask.reason(site.url("/new")) == "fetched"
    with zipfile.ZipFile(waczs / "site-1.wacz") as made:
        names = {name.rpartition("/")[2] for name in made.namelist()}
    ours = {path.name for path in cluster.warc_dir.iterdir()} - {*earlier}
    assert {name for name in names if name.startswith("site-1-")} == {
        name for name in ours if not name.endswith(".cdxj")
    }
    told = "2 files of another crawl with the id site-1 are not in the WACZ"
    assert told in cluster.text_of("node-1")
