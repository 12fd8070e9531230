"""Metrics of real nodes, judged by Prometheus' own tools."""

import re
import shutil

import pytest
import yaml
from conftest import DEADLINE, HELD, ROOT, after, until

from tests.metrics.test_deploy import queries
from tests.prometheus import Prometheus


def url_of(cluster, node_id):
    """Where a node says that its metrics are."""
    found = re.search(r"metrics are at (\S+)", cluster.text_of(node_id))
    return found and found[1]


BOTH = ("node-1", "node-2")
TOKEN = "a-token-that-is-long-enough"


@pytest.fixture
def prometheus(tmp_path):
    """What deploy/ has for Prometheus, but each second, and with our own places."""
    place = shutil.copytree(ROOT / "deploy" / "prometheus", tmp_path / "prometheus")
    made = Prometheus(place)

    def start(dashboard):
        config = yaml.safe_load((place / "prometheus.yml").read_text())
        config["global"] = dict.fromkeys(config["global"], "1s")
        nodes, crawls = config["scrape_configs"]
        (found,) = nodes["http_sd_configs"]
        found |= {"refresh_interval": "1s", "url": f"http://{dashboard}/targets"}
        crawls["static_configs"][0]["targets"] = [dashboard]
        for asking in (found, crawls):
            asking["authorization"]["credentials_file"] = "token"
        (place / "token").write_text(TOKEN)
        (place / "prometheus.yml").write_text(yaml.safe_dump(config))
        made.start()
        return made

    yield start, made
    made.stop()


@pytest.fixture
def running(cluster, monkeypatch):
    """Start a command of ``frontier`` and return the first line that it says."""
    made = []

    def start(*words, **more):
        for name, value in more.items():
            monkeypatch.setenv(name, value)
        made.append(cluster.command(*words))
        return made[-1], made[-1].stderr.readline()

    yield start
    for process in made:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=DEADLINE)


@pytest.mark.long
def test_prometheus_finds_both_nodes_of_a_crawl_and_says_their_pages_per_second(
    serve, cluster, prometheus, running
):
    start, judge = prometheus
    server = serve(urls=200, hosts=8, nodes=BOTH, delay=HELD, until=after(20))
    seeds = f"seeds={','.join(server.seeds)}"
    for node in BOTH:
        cluster.start(node, "-a", seeds, FRONTIER_METRICS_PORT="0")
    cluster.share("site-1")
    server.delay = 0.0
    until(lambda: len(server.answered) >= 20, "pages")
    ports = [
        int(until(lambda n=n: url_of(cluster, n), "a port").split(":")[2].split("/")[0])
        for n in BOTH
    ]
    assert ports[0] != ports[1]
    _, said = running("dashboard", "--port", "0", DASHBOARD_TOKEN=TOKEN)
    address = re.search(r"http://([\d.:]+)/", said)[1]
    start(address)

    def nodes_of(query):
        return {labels["node"] for labels, value in judge.query(query) if value > 0}

    until(lambda: nodes_of('up{job="frontier-nodes"}') == set(BOTH), "two targets")
    until(lambda: len(judge.query("frontier_pages_total")) == 2, "their pages")
    until(lambda: judge.query("frontier_crawl_pages_total"), "the crawl's pages")
    server.until = after(160)  # by then each has fetched pages of its own hosts
    rate = "rate(frontier_pages_total[5m])"
    until(lambda: nodes_of(rate) == set(BOTH), "pages per second of both")
    until(
        lambda: judge.query("rate(frontier_crawl_pages_total[5m]) > 0"), "the crawl's"
    )

    found = {labels["node"]: labels for labels, _ in judge.query("frontier_node_info")}
    assert {labels["crawl"] for labels in found.values()} == {"site-1"}
    assert "exported_node" not in found["node-1"]
    rules = judge.ask("rules")["groups"]
    assert [rule["health"] for group in rules for rule in group["rules"]] == ["ok"] * 12
    for query in queries():
        judge.query(query.replace("$crawl", ".*").replace("$node", ".*"))
    assert judge.query('frontier_crawl_nodes{state="live"}')[0][1] == 2

    server.go_on()
    cluster.finish()
    until(lambda: not judge.query('up{job="frontier-nodes"}'), "nothing to scrape")
