"""A crawl that has ended without one page does not look like one that went well."""

import threading

import pytest
from conftest import DEADLINE, until

from frontier.download.robots import MOST_FETCHED
from frontier.status.snapshot import snapshot
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, page, redirect

QUICK = {"RETRY_ENABLED": "False"}
IS_IN = "is in crawl site-1"


ROBOTS = answer(b"User-agent: *\nDisallow: /", "Content-Type: text/plain")


@pytest.fixture
def sites():
    """Sites by their answers."""
    made = []

    def site(answers):
        made.append(RawSite(answers))
        return made[-1]

    yield site
    for each in made:
        each.close()


class Held:
    """Answers when it is told to: with *answer*, or by hanging up."""

    def __init__(self, answer=b""):
        self.answer = answer
        self.go = threading.Event()

    def __call__(self, connection):
        self.go.wait(DEADLINE)
        connection.sendall(self.answer)

    def until_all_are_in(self, cluster):
        """Answer when all nodes are in the crawl: it cannot end before."""
        for node in cluster.nodes:
            until(lambda node=node: IS_IN in cluster.text_of(node), "a node is in")
        self.go.set()


def start(cluster, *seeds, nodes=("node-1",), **settings):
    for node in nodes:
        cluster.start(node, "-a", f"seeds={','.join(seeds)}", **{**QUICK, **settings})


def look(cluster):
    return snapshot(cluster.store, "frontier", "site-1")


def test_crawl_whose_seeds_do_not_answer_fails_on_both_nodes(cluster, sites):
    held = Held()
    site = sites(dict.fromkeys(("/robots.txt", "/1", "/2", "/3"), held))
    seeds = [site.url(path) for path in ("/1", "/2", "/3")]
    both = ("node-1", "node-2")
    start(cluster, *seeds, nodes=both)
    held.until_all_are_in(cluster)

    assert cluster.wait() == [1, 1]
    for node in both:
        text = cluster.text_of(node)
        assert "the crawl site-1 has ended without one page: of 3 requests" in text
        assert "Spider closed (frontier_nothing_fetched)" in text
    seen = look(cluster)
    assert (seen.state, seen.fetched, seen.queue.pushed) == ("finished", False, 3)
    report = cluster.ask("crawl", "status").stdout
    assert "It has fetched nothing: 3 requests" in report
    told = cluster.shown("crawl", "status")
    assert told["fetched"] is False


def test_crawl_with_only_disallowed_or_out_of_scope_pages_fails(cluster, sites):
    other = sites({"/": page()})
    away = sites({"/": redirect(other.url("/"))})
    site = sites({"/robots.txt": ROBOTS, "/": page()})
    start(cluster, site.url("/"), away.url("/"))

    assert cluster.wait() == [1]
    assert other.requests == {}
    # The third is where the redirect leads.
    assert "has ended without one page: of 3 requests" in cluster.text_of("node-1")
    report = cluster.ask("crawl", "status").stdout
    told = "3 requests, 1 disallowed by robots.txt, 1 out of scope, excluded"
    assert f"It has fetched nothing: {told}, or at addresses not allowed" in report
    # It is closed: who starts again when the rules have changed gets a new crawl.
    site.pages["/robots.txt"] = answer()
    start(cluster, site.url("/"), nodes=["node-2"])
    cluster.finish("node-2")
    assert "is in crawl site-2" in cluster.text_of("node-2")


def test_one_answer_makes_the_crawl_a_success_for_every_node(cluster, sites):
    held = Held(answer(status="404 Not Found"))
    site = sites({"/": held})
    both = ("node-1", "node-2")
    start(cluster, site.url("/"), nodes=both, FRONTIER_WARC_ENABLED="False")
    held.until_all_are_in(cluster)

    cluster.finish()
    assert look(cluster).fetched
    assert "fetched nothing" not in cluster.ask("crawl", "status").stdout


def test_spider_without_requests_says_so_and_succeeds(cluster, tmp_path):
    scrapy_project(
        tmp_path, "import scrapy\n\n\nclass Idle(scrapy.Spider):\n    name = 'idle'\n"
    )
    cluster.start("node-1", spider="idle", cwd=tmp_path)

    cluster.finish()
    assert "idle-1 has ended and had nothing to fetch" in cluster.text_of("node-1")


@pytest.mark.parametrize("archive", ["True", "False"])
def test_of_a_huge_robots_txt_the_beginning_is_obeyed(cluster, sites, archive):
    rules = b"User-agent: *\nDisallow: /private\n#" + b"x" * (4 * MOST_FETCHED)
    answers, sent = [answer(status="500 No"), answer(rules)], []

    def robots(connection):
        said = answers.pop(0)
        for at in range(0, len(said), MOST_FETCHED // 8):
            connection.sendall(said[at : at + MOST_FETCHED // 8])
            sent.append(at)

    site = sites({"/robots.txt": robots, "/": page(), "/private": page()})
    settings = {"FRONTIER_WARC_ENABLED": archive, "RETRY_ENABLED": "True"}
    start(cluster, site.url("/"), site.url("/private"), **settings)

    cluster.finish()
    assert site.requests.keys() == {"/robots.txt", "/"}
    assert "only its first rules are read (RFC 9309)" in cluster.text_of("node-1")
    assert sent[-1] < 3 * MOST_FETCHED, "also where the request was a retry"
