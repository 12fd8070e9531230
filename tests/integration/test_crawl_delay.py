"""A Crawl-delay that a site asks for does not keep a node from stopping."""

import json

import pytest
from conftest import until

from tests.rawsite import RawSite, answer, page


@pytest.fixture
def site():
    paths = [f"/{n}" for n in range(20)]
    robots = answer("User-agent: *\nCrawl-delay: 1e308\n", "Content-Type: text/plain")
    made = RawSite({"/robots.txt": robots, "/": page(*paths)})
    made.pages |= dict.fromkeys(paths, page())
    yield made
    made.close()


def test_a_node_stops_though_a_host_is_to_be_left_alone_for_long(cluster, site):
    node = cluster.start("a", "-a", f"seeds={site.url('/')}")
    until(lambda: "asks for a delay of" in cluster.text_of("a"), "the delay")
    node.terminate()

    assert cluster.wait() == [0]
    assert site.requests.keys() == {"/robots.txt"}
    cluster.start("b", "-a", f"seeds={site.url('/')}", FRONTIER_CRAWL_DELAY_MAX="0")
    assert cluster.wait("b") == [0]
    assert len(site.requests) == 22
    dead = json.loads(cluster.ask("crawl", "dead", "--json").stdout)
    assert dead["dead"] == 0
