"""Each benchmark as a process; what they are made of is tested beside it."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RATIOS = {
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
    "growth": {"growth_site", "growth_broad", "bytes_per_host"},
    "loads": {
        f"{load}_vs_{peer}"
        for load in ("items", "all_new", "post", "heavy", "broad", "tiny")
        for peer in ("scrapy", "scrapy_redis")
    },
    "memory": {
        "bytes_per_url_default",
        "bytes_per_url_bloom_and_set",
        "bytes_per_url_bloom",
        "bytes_per_url_scrapy_redis",
        "scrapy_redis_over_default",
    },
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
        "due_per_s",
        "server_us_per_due",
        "bytes_per_scheduled",
        "freshness_adaptive_vs_fixed",
        "freshness_best_vs_fixed",
        "freshness_of_pages_adaptive_vs_fixed",
    },
    "seen": {
        "new_default_vs_scrapy_redis",
        "new_bloom_vs_scrapy_redis",
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
}


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@cache
def measure(name):
    done = run(name, "--quick", "--json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


LONG = {"crawl", "growth", "loads", "postcrawl", "queue", "recrawl", "seen", "start"}
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
def test_a_scheduled_url_takes_few_bytes_and_little_of_the_server():
    recrawl = measure("recrawl")["ratios"]

    assert recrawl["bytes_per_scheduled"] <= 30
    assert recrawl["server_us_per_due"] <= 10
    assert recrawl["freshness_adaptive_vs_fixed"] >= 1.5
    assert recrawl["freshness_adaptive_vs_fixed"] < recrawl["freshness_best_vs_fixed"]


def test_only_growth_postcrawl_and_recrawl_have_a_full_run():
    done = run("seen", "--full")

    assert done.returncode == 2
    assert "seen has no such run" in done.stderr


def test_without_valgrind_no_instructions_are_counted_and_ci_fails(tmp_path):
    here = run("instructions", "--json", PATH=str(tmp_path), CI="")
    there = run("instructions", "--json", PATH=str(tmp_path), CI="true")

    assert here.returncode == 0, here.stderr
    report = json.loads(here.stdout)
    assert report["results"] == {}
    assert "there is no valgrind" in report["environment"]["notes"][0]
    assert there.returncode == 1
    assert there.stderr == "instructions: there is no valgrind\n"


def test_a_benchmark_that_there_is_not_is_not_compared():
    done = run("compare", "HEAD", "nothing")

    assert done.returncode == 2
    assert "invalid choice: 'nothing'" in done.stderr
