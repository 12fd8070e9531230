"""Each benchmark as a process; what they are made of is tested beside it."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench
ROOT = Path(__file__).parents[1]
LONG = ["crawl", "growth", "loads", "postcrawl", "queue"]
LONG += ["recrawl", "seen", "start", "warc"]
"""Beside `memory`, of which another test checks the report, too."""


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1800,  # only so that one without an end fails
        check=False,
    )


@cache
def measure(name):
    done = run(name, "--quick", "--json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1
    return json.loads(lines[0])


def ratios_of(name):
    """The ratios of the report of benchmark *name*, once its form is checked."""
    report = measure(name)
    assert list(report) == ["benchmark", "environment", "results", "ratios"]
    assert report["benchmark"] == name
    assert report["environment"]["cpus"] >= 1
    assert report["ratios"]
    for metrics in report["results"].values():
        assert all(isinstance(value, float) for value in metrics.values())
    return report["ratios"]


@pytest.mark.parametrize("name", LONG)
def test_a_benchmark_ends_with_one_json_line_that_has_ratios(name):
    ratios_of(name)


def test_a_url_takes_few_bytes():
    memory = ratios_of("memory")

    assert memory["bytes_per_url_default"] <= 12
    assert memory["bytes_per_url_default"] < memory["bytes_per_url_scrapy_redis"] / 5


def test_a_scheduled_url_takes_few_bytes_and_little_of_the_server():
    recrawl = measure("recrawl")["ratios"]

    assert recrawl["bytes_per_scheduled"] <= 30
    assert recrawl["server_us_per_due"] <= 10
    assert recrawl["freshness_adaptive_vs_fixed"] >= 1.5
    assert recrawl["freshness_adaptive_vs_fixed"] < recrawl["freshness_best_vs_fixed"]
    assert recrawl["delay_over_wait_feeds"] < 1  # 0.001 on a machine of its own
    assert recrawl["delay_over_wait_pages"] < 1  # 0.02
