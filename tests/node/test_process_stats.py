import asyncio
import math
import os
import resource
import time
from types import SimpleNamespace

import pytest

from frontier.errors import ConfigurationError
from frontier.node import process_stats
from frontier.node.file_limit import raise_file_limit
from frontier.node.process_stats import (
    ProcessStats,
    cgroup_limits,
    ranges,
)


def test_too_few_open_files_are_refused(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (500, 500))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)
    raise_file_limit(16)
    with pytest.raises(ConfigurationError, match="CONCURRENT_REQUESTS = 490 needs"):
        raise_file_limit(490)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([3, 1, 2, 77], "1-3,77"),
        (range(16_384), "0-16383"),
        ([0, 2, 3], "0,2-3"),
    ],
)
def test_partitions_are_named_as_ranges(numbers, text):
    assert ranges(numbers) == text


def test_a_process_is_measured(tmp_path):
    made = ProcessStats({"MEMUSAGE_LIMIT_MB": "8"}, tmp_path)
    assert made.report([])["memory_bytes"] == 0

    made.measure()
    told = made.report([1, 2])

    disk = os.statvfs(tmp_path)
    assert 10_000_000 < told["memory_bytes"] < 4_000_000_000
    assert told["memory_limit_bytes"] == 8 * 1024 * 1024
    assert 0 < told["disk_free_bytes"] <= told["disk_total_bytes"]
    assert told["disk_total_bytes"] == disk.f_blocks * disk.f_frsize
    assert 0 < told["cpu_seconds"] <= time.process_time() + 0.01  # it is rounded
    assert told["pid"] == os.getpid()
    assert (told["machine"], told["holds"]) == (os.uname().nodename, "1-2")
    assert told["metrics_port"] == 0
    assert ProcessStats({}).report([])["disk_total_bytes"] == 0


@pytest.mark.parametrize(
    ("settings", "limit"),
    [
        ({"MEMUSAGE_LIMIT_MB": 100}, 100 * 1024 * 1024),
        ({"MEMUSAGE_LIMIT_MB": 100, "MEMUSAGE_ENABLED": "False"}, 0),
        ({"MEMUSAGE_LIMIT_MB": 0}, 0),
        ({"MEMUSAGE_LIMIT_MB": math.inf}, 0),
    ],
)
def test_scrapys_limit_counts_while_it_looks_at_it(settings, limit, monkeypatch):
    monkeypatch.setattr(process_stats, "cgroup_limits", list)

    assert process_stats.memory_limit(settings) == limit


def test_the_least_limit_of_a_control_group_counts(tmp_path, monkeypatch):
    table = tmp_path / "cgroup"
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "memory.max").write_text("max\n")
    (tmp_path / "a" / "memory.max").write_text("5000\n")
    table.write_text("0::/a/b\nnonsense\n")
    assert cgroup_limits(table, tmp_path) == [5000]

    monkeypatch.setattr(process_stats, "cgroup_limits", lambda: [5000, 3000])
    assert process_stats.memory_limit({"MEMUSAGE_LIMIT_MB": 1}) == 3000


async def test_a_loop_that_is_blocked_is_late(until):
    now = [1_000.0]
    made = ProcessStats({}, clock=lambda: now[0])
    running = asyncio.create_task(made.run())
    await until(lambda: made._late)

    now[0] += process_stats.TURN + 0.6
    await until(lambda: made.report([])["lag_ms"])

    assert made.report([])["lag_ms"] == pytest.approx(600, abs=1)
    running.cancel()


def test_the_pace_is_that_of_the_last_minute():
    now = [1000.0]
    made = ProcessStats({}, clock=lambda: now[0])
    assert made.pace({"pages": 7}) == {"lately": {"pages": 0}, "lately_seconds": 0.0}

    for second in range(1, 301):
        now[0] += 1
        fast = made.pace({"pages": 7 + 10 * second})
    assert fast["lately"] == {"pages": 10}
    for _ in range(120):
        now[0] += 1
        slow = made.pace({"pages": 7 + 3000})

    assert 60 <= fast["lately_seconds"] < 60 + process_stats.PACE_EVERY_S
    assert slow == {"lately": {"pages": 0}, "lately_seconds": fast["lately_seconds"]}


async def test_a_disk_that_hangs_holds_up_one_thread_only(until, monkeypatch, tmp_path):
    asked = []
    hangs = asyncio.Event()

    def statvfs(directory):
        asked.append(directory)
        while not hangs.is_set():
            time.sleep(0.01)
        return SimpleNamespace(f_bavail=1, f_blocks=2, f_frsize=10)

    monkeypatch.setattr(process_stats, "EVERY", 0.0)
    monkeypatch.setattr(process_stats, "TURN", 0.01)
    monkeypatch.setattr(process_stats.os, "statvfs", statvfs)
    made = ProcessStats({}, tmp_path)
    running = asyncio.create_task(made.run())

    await until(lambda: asked and len(made._late) >= 5)
    assert len(asked) == 1
    assert made.report([])["disk_total_bytes"] == 0
    hangs.set()
    await until(lambda: made.report([])["disk_total_bytes"] == 20)
    running.cancel()
