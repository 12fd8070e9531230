import json
import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import redis

from benchmarks.__main__ import BENCHMARKS, main
from benchmarks.growth import Workload, grow, steps
from benchmarks.harness import Figures, Report, alternate
from benchmarks.manifest_rows import petabyte, planned, require_room
from benchmarks.proxy import delayed
from benchmarks.server import private_server

ROOT = Path(__file__).parents[1]
RATIOS = {
    "archive": {
        "import_lines_per_second",
        "commit_digests_per_second",
        "import_vs_naive",
        "commit_vs_hsetnx",
        "import_peak_kb_grown_by_10x_input",
    },
    "canon": {
        "us_scrapy",
        "us_heritrix",
        "us_openwayback",
        "us_openwayback_key",
        "us_surt",
        "us_surt_ordinary",
        "us_whatwg",
        "seen_heritrix_over_scrapy",
        "surt_pypi_us",
    },
    "crawl": {
        "vs_scrapy_0ms",
        "vs_scrapy_2_5ms",
        "vs_scrapy_redis_0ms",
        "vs_scrapy_redis_2_5ms",
        "archive_on_over_off",
        "cpu_per_page_vs_scrapy",
        "server_us_per_page",
        "reactor_stall_ms_max",
        "reactor_stall_ms_with_scrapy",
        "reactor_stall_ms_scrapy_alone",
    },
    "endurance": {
        "node_mb",
        "node_grown_percent_after_a_tenth",
        "crawl_mb",
        "crawl_grown_percent_after_a_tenth",
    },
    "months": {
        "rounds",
        "nodes_killed",
        "pages_lost",
        "twice_in_a_round",
        "visits_apart_max",
        "collection_faults",
        "store_bytes_per_round",
        "store_grown_percent",
        "keys_grown",
        "journals_grown_percent",
        "journal_bytes_per_page",
    },
    "growth": {"growth_site", "growth_broad", "bytes_per_host"},
    "hostile": {
        "inputs",
        "hung",
        "crashed",
        "escaped",
        "wrong",
        "over_memory",
        "peak_mb",
        "cpu_s",
    },
    "loads": {
        f"{load}_vs_{peer}"
        for load in ("items", "all_new", "post", "heavy", "broad", "tiny")
        for peer in ("scrapy", "scrapy_redis")
    },
    "memory": {
        "bytes_per_url_set64",
        "bytes_per_url_default",
        "bytes_per_url_set32",
        "bytes_per_url_bloom",
        "bytes_per_url_scrapy_redis",
        "scrapy_redis_over_default",
    },
    "onesite": {"four_nodes_vs_one", "four_nodes_shards_vs_one"},
    "postcrawl": {
        "manifest_vs_bare_loop",
        "apply_cpu_vs_read",
        "plan_rows_per_s",
        "plan_memory_growth_10x",
        "workers_2_vs_1",
        "payloads_lost",
    },
    "queue": {
        "bytes_per_queued_url",
        "bytes_per_queued_url_scrapy_redis",
        "links_per_second",
        "links_vs_scrapy_redis",
        "script_ms_max",
    },
    "recrawl": {
        "items_lost",
        "items_twice",
        "delay_over_wait_max",
        "due_per_s",
        "server_us_per_due",
        "bytes_per_scheduled",
        "freshness_adaptive_vs_fixed",
        "freshness_best_vs_fixed",
        "freshness_of_pages_adaptive_vs_fixed",
        "freshness_of_pages_best_vs_fixed",
    },
    "operate": {
        "page_cpu_ms",
        "api_cpu_ms",
        "metrics_cpu_share",
        "store_share_10_viewers",
        "store_share_of_snapshots",
    },
    "ring": {
        "max_over_mean_3",
        "max_over_mean_10",
        "max_over_mean_100",
        "moved_over_ideal_join_3",
        "moved_over_ideal_leave_3",
        "moved_over_ideal_join_10",
        "moved_over_ideal_leave_10",
        "takeover_1e6_over_1e3",
        "queue_bytes_moved_by_join",
        "idle_redis_core_percent",
    },
    "seen": {
        "new_default_vs_scrapy_redis",
        "new_set_vs_scrapy_redis",
        "recent_vs_scrapy_redis",
        "recent_vs_scrapy_memory",
        "new_1ms_vs_scrapy_redis",
        "one_partition_cost",
        "false_seen_set",
        "false_seen_bloom_1x",
        "false_seen_bloom_4x",
        "bloom_rate_asked",
        "new_whole_vs_scrapy_redis_whole",
    },
    "simulate": {
        "redis_cores_100_nodes",
        "redis_cores_100_nodes_idle",
        "lease_kb_per_s_100_nodes",
        "store_gb_1e10_urls",
    },
    "start": {
        "start_cpu_s",
        "start_cpu_s_scrapy",
        "start_cpu_vs_scrapy",
        "status_cpu_s",
        "exit_s",
        "exit_s_scrapy",
        "one_page_store_ms",
        "one_page_store_ms_64",
    },
    "warc": {"vs_warcio", "size_vs_warcio", "vs_bare_loop", "vs_fastwarc"}
    | {"no_block_digest_vs_bare_loop", "vs_digest_loop"},
    "wacz": {"frontier_vs_copy", "read_vs_copy", "strict_vs_copy"},
}


@cache
def measure(name):
    words = [sys.executable, "-m", "benchmarks", name, "--quick", "--json"]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


@pytest.fixture(scope="module")
def server():
    with private_server() as started:
        yield started


LONG = {"archive", "crawl", "endurance", "growth", "hostile", "onesite", "ring"}
LONG |= {"loads", "months", "operate", "postcrawl", "recrawl", "seen", "queue", "start"}
ELSEWHERE = {"memory"}
"""Another test checks its report too: it is measured once, and not by each worker."""


def ratios_of(name):
    """The ratios of the report of benchmark *name*, once its form is checked."""
    report = measure(name)
    assert list(report) == ["benchmark", "environment", "results", "ratios"]
    assert report["benchmark"] == name
    assert report["environment"]["cpus"] >= 1
    assert set(report["ratios"]) >= RATIOS[name]
    for metrics in report["results"].values():
        assert all(isinstance(value, float) for value in metrics.values())
    return report["ratios"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.bench if name in LONG else ())
        for name in sorted(RATIOS.keys() - ELSEWHERE)
    ],
)
def test_a_benchmark_ends_with_one_json_line_that_has_every_ratio(name):
    ratios_of(name)


def test_a_url_takes_few_bytes():
    memory = ratios_of("memory")

    assert memory["bytes_per_url_default"] <= 12
    assert memory["bytes_per_url_default"] < memory["bytes_per_url_scrapy_redis"] / 5


@pytest.mark.bench
def test_the_ring_is_balanced_and_moves_little_and_no_data():
    ring = measure("ring")["ratios"]

    for size, most in ((3, 1.06), (10, 1.06), (100, 1.08)):
        assert ring[f"max_over_mean_{size}_worst"] <= most
    for size in (3, 10):
        assert ring[f"moved_over_ideal_join_{size}"] <= 1.15
        assert ring[f"moved_over_ideal_leave_{size}"] <= 1.15
    assert ring["queue_bytes_moved_by_join"] == 0
    assert ring["takeover_1e6_over_1e3"] < 3


@pytest.mark.bench
def test_a_scheduled_url_takes_few_bytes_and_little_of_the_server():
    recrawl = measure("recrawl")["ratios"]

    assert recrawl["items_lost"] == 0
    assert recrawl["items_twice"] == 0
    assert recrawl["bytes_per_scheduled"] <= 30
    assert recrawl["server_us_per_due"] <= 10
    assert recrawl["freshness_adaptive_vs_fixed"] >= 1.5
    assert recrawl["freshness_adaptive_vs_fixed"] < recrawl["freshness_best_vs_fixed"]
    assert recrawl["freshness_of_pages_best_vs_fixed"] < 1.1


def test_competitors_take_turns_in_both_orders():
    competitors = {"a": lambda: {"x": 1.0}, "b": lambda: {"x": 2.0}}

    assert [name for name, _ in alternate(2, competitors)] == ["a", "b", "b", "a"]


def test_a_ratio_is_the_median_of_the_quotients_within_a_round():
    figures = Figures()
    for slow_down in (1.0, 10.0, 1.0):  # a busy machine touches both sides
        figures.add("a", {"x": 300.0 / slow_down})
        figures.add("b", {"x": 100.0 / slow_down})

    assert figures.ratio(("a", "x"), ("b", "x")) == 3.0
    assert figures.results() == {"a": {"x": 300.0}, "b": {"x": 100.0}}


def test_the_tables_name_every_competitor_and_ratio(capsys):
    results = {"ours": {"new_per_s": 12345.0}, "theirs": {"new_per_s": 5.0}}
    Report("seen", {}, results, {"ours_vs_theirs": 2469.0}, ["a note"]).print_tables()

    shown = capsys.readouterr().out
    for text in ("ours", "theirs", "12,345", "ours_vs_theirs", "2,469", "a note"):
        assert text in shown


@pytest.mark.parametrize(
    "load",
    [
        Workload(hosts=1, partitions=1, per_flight=100, chunk=300),
        Workload(hosts=50, partitions=8, per_flight=200, together=1, chunk=300),
        Workload(hosts=8, partitions=8, per_flight=400, flights=3, chunk=300),
    ],
)
def test_a_crawl_grows_by_as_many_new_urls_as_are_told(server, load):
    figures = Figures()

    found = grow(server, figures, "some", load, [400, 1000])

    assert [count for count, _ in found] == [400, 1000]
    assert figures.results().keys() == {"some 400", "some 1,000"}
    assert all(row["server_cpu_us_per_new"] > 0 for _, row in found)
    counts = [server.client.hgetall(key) for key in server.client.scan_iter("*:counts")]
    assert len(counts) == load.partitions
    for name in (b"pushed", b"acked"):
        assert sum(int(one[name]) for one in counts) == 1000
    assert all(int(one[b"ready"]) == 0 for one in counts)
    server.empty()


def test_growth_is_measured_at_powers_of_ten_and_three_times_those():
    assert steps(300_000) == [10_000, 30_000, 100_000, 300_000]
    assert steps(100_000_000)[-3:] == [10_000_000, 30_000_000, 100_000_000]


def test_only_growth_has_a_full_run(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["seen", "--full"])

    assert "seen has no such run" in capsys.readouterr().err


def test_a_plot_that_cannot_be_drawn_is_refused_before_anything_is_measured(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setitem(BENCHMARKS, "crawl", lambda *_: pytest.fail("it measures"))
    monkeypatch.setattr("benchmarks.__main__.find_spec", lambda _: None)
    with pytest.raises(SystemExit, match="2"):
        main(["crawl", "--plot", f"{tmp_path}/pace.svg"])

    assert "--plot needs matplotlib" in capsys.readouterr().err


def test_the_proxy_delays_a_round_trip_and_ends_with_its_block(server):
    with delayed(server, 0.02) as url:
        client = redis.Redis.from_url(url)
        client.ping()
        took = []
        for _ in range(20):  # of which some meet nothing that keeps the machine busy
            start = time.perf_counter()
            client.ping()
            took.append(time.perf_counter() - start)
        assert 0.02 <= min(took) < 0.2
        client.close()
        socket = Path(url.removeprefix("unix://"))
        assert socket.exists()
    assert not socket.exists()


def test_a_server_is_stopped_when_its_block_fails():
    found = {}

    def fail():
        with private_server() as started:
            found["process"] = int(started.info("server")["process_id"])
            found["socket"] = started.socket
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(ProcessLookupError):
        os.kill(found["process"], 0)
    assert not found["socket"].exists()


def test_what_a_petabyte_takes_follows_from_what_was_measured():
    found = petabyte(
        {
            "manifest": 100.0,
            "apply": 200.0,
            "us_per_row": 3.0,
            "manifest_bytes_per_row": 120.0,
            "disk_bytes_per_row": 180.0,
        }
    )

    rows = 1e15 / 30_000
    assert found == {
        "petabyte_rows": rows,
        "petabyte_manifest_core_hours": pytest.approx(1e15 / 1e8 / 3600),
        "petabyte_manifests_tb": pytest.approx(rows * 120 / 1e12),
        "petabyte_plan_core_hours": pytest.approx(rows * 3e-6 / 3600),
        "petabyte_plan_disk_tb": pytest.approx(rows * 180 / 1e12),
        "petabyte_apply_core_hours": pytest.approx(1e15 / 2e8 / 3600),
    }


def test_rows_are_not_begun_that_the_disk_has_no_room_for(tmp_path):
    with pytest.raises(OSError, match="1,000,000,000,000 rows take up to 400,000 GB"):
        require_room(tmp_path, 10**12)


def test_the_plan_of_rows_of_no_file_tells_its_memory_and_disk():
    facts = planned(20_000, "256MB")

    assert 0.3 < facts["copies"] / 20_000 < 0.4
    assert facts["peak_rss_mib"] > 10
    for each in ("manifest_bytes_per_row", "plan_bytes_per_copy"):
        assert 40 < facts[each] < 400
