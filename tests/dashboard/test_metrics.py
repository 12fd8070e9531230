"""The totals of crawls, as Prometheus gets them from the status page."""

import json
import subprocess

from prometheus_client.openmetrics.parser import text_string_to_metric_families as of_om
from prometheus_client.parser import text_string_to_metric_families as of_text

from frontier.metrics.crawl import CRAWL, MOST
from frontier.store.keys import SCHEMA
from tests.prometheus import program

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
REPORT = {
    "pages": 70,
    "requests": 90,
    "bytes": 1234,
    "statuses": {"200": 60, "404": 10, "799": 3, "999": 2},
    "error_kinds": {"dns": 4, "tls": 1},
    "seen": {"recent": 5, "bloom": 0, "set": 2},
    "traps": {"hops": 7},
    "archive": {"originals": 50, "revisits": 10, "written_bytes": 999},
    "memory_bytes": 1000,
}


def values(text):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in of_text(text)
        for sample in family.samples
    }


def told(db, keys, **reports):
    for node, report in reports.items():
        now = int(db("TIME")[0]) * 1000
        db("HSET", keys.nodes, node, f"{now} 1 0")
        db("HSET", keys.reports, node, json.dumps(report))


def test_the_sums_of_a_crawl_are_exported_in_both_forms_without_a_fault(
    page, crawl_of, db
):
    keys = crawl_of("news")
    told(db, keys, a=REPORT, b=REPORT)
    served = page()
    answer, text = served.ask("/metrics")
    promtool = program("promtool")
    judged = subprocess.run(
        [promtool, "check", "metrics"], input=text, capture_output=True, text=True
    )

    assert answer.status == 200
    assert answer.getheader("content-type").startswith("text/plain; version=0.0.4")
    assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")
    found = values(text)
    assert found[("frontier_crawl_pages_total", "news-1")] == 140
    assert found[("frontier_crawl_nodes", "live", "news-1")] == 2
    assert found[("frontier_crawl_state", "news-1", "open")] == 1
    assert found[("frontier_crawl_state", "finished", "news-1")] == 0
    assert found[("frontier_crawl_responses_total", "404", "news-1")] == 20
    assert found[("frontier_crawl_responses_total", "news-1", "other")] == 10
    assert found[("frontier_crawl_errors_total", "dns", "news-1")] == 8
    assert found[("frontier_crawl_errors_total", "news-1", "timeout")] == 0
    assert found[("frontier_crawl_urls_seen_total", "news-1", "set")] == 4
    assert found[("frontier_crawl_links_trapped_total", "hops", "news-1")] == 14
    assert found[("frontier_crawl_archive_written_bytes_total", "news-1")] == 1998
    assert found[("frontier_store_memory_used_bytes",)] > 10_000
    assert {one.name for one in of_text(text)} == {
        metric.name.removesuffix("_total") for metric in CRAWL
    }
    answer, text = served.ask("/metrics", Accept=OPENMETRICS)
    assert answer.getheader("content-type").startswith("application/openmetrics-text")
    families = {family.name: family for family in of_om(text)}
    assert families["frontier_crawl_pages"].type == "counter"
    assert families["frontier_crawl_archive_written_bytes"].unit == "bytes"


def test_a_hostile_name_in_the_store_is_escaped(page, crawl_of, db):
    keys = crawl_of("news")
    bad = 'x"} 1\nevil_total 7\n#'
    told(db, keys, a={"statuses": {bad: 3}, "error_kinds": {bad: 3}, "traps": {bad: 1}})
    _, text = page().ask("/metrics")

    assert not [line for line in text.splitlines() if line.startswith("evil")]
    assert "evil_total" not in {name for name, *_ in values(text)}


def test_only_the_newest_crawls_are_exported_and_the_others_counted(page, crawl_of):
    for number in range(MOST + 3):
        crawl_of(f"spider{number}")
    found = values(page().ask("/metrics")[1])

    crawls = {key[1] for key in found if key[0] == "frontier_crawl_pages_total"}
    assert len(crawls) == MOST
    assert found[("frontier_crawls_left_out",)] == 3


def test_a_crawl_that_ended_long_ago_is_not_exported(page, crawl_of, db):
    keys = crawl_of("news")
    db("HSET", keys.meta, "state", "finished", "finished_ms", "1000")
    found = values(page().ask("/metrics")[1])

    assert ("frontier_crawl_pages_total", "news-1") not in found
    assert found[("frontier_crawls_left_out",)] == 0


def test_the_clock_of_the_store_says_how_long_ago_a_crawl_has_ended(
    page, crawl_of, db, monkeypatch
):
    keys, now = crawl_of("news"), int(db("TIME")[0]) * 1000
    db("HSET", keys.meta, "state", "finished", "finished_ms", now)
    monkeypatch.setattr("time.time", lambda: 1e10)

    found = values(page().ask("/metrics")[1])
    assert ("frontier_crawl_pages_total", "news-1") in found


def test_figures_that_are_not_of_now_are_no_figures(page, crawl_of, own_server):
    from frontier.store.client import BlockingStore

    store = BlockingStore.from_settings({"REDIS_URL": own_server.url})
    served = page(store=store)
    assert served.ask("/metrics")[0].status == 200
    own_server.kill()

    while served.ask("/metrics")[0].status == 200:
        pass  # the next look is due within a second
    assert served.ask("/metrics")[0].status == 503
    own_server.start()


def test_prometheus_is_told_no_nodes_of_another_version_and_the_log_says_so(
    page, crawl_of, db, caplog
):
    keys = crawl_of("news")
    told(db, keys, a=REPORT | {"metrics_port": 9100, "metrics_host": "10.0.0.7"})
    assert "10.0.0.7:9100" in page().ask("/targets")[1]
    db("HSET", keys.meta, "schema", SCHEMA + 1)

    assert json.loads(page().ask("/targets")[1]) == []
    assert f"news-1 has schema version {SCHEMA + 1}, " in caplog.text
