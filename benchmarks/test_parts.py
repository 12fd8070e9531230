"""What benchmarks are made of; `tests/test_benchmarks.py` runs them."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis

from benchmarks.growth import Workload, grow, steps
from benchmarks.harness import Figures, alternate
from benchmarks.manifest_rows import planned, require_room
from benchmarks.proxy import delayed
from benchmarks.server import private_server


@pytest.fixture(scope="module")
def server():
    with private_server() as started:
        yield started


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


def test_the_proxy_delays_a_round_trip_and_ends_with_its_block(server):
    with delayed(server, 0.02) as url:
        client = redis.Redis.from_url(url)
        client.ping()
        took = []
        for _ in range(20):  # the machine is not busy during all of them
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


def test_a_link_is_traced_to_its_ack():
    words = [sys.executable, "-m", "benchmarks", "instructions", "--trace"]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
    modules, scripts = map(str.split, done.stdout.splitlines())

    assert {"scheduler.py", "node/outbox.py", "node/acks.py"} < {*modules}
    assert {"queue_push", "queue_reserve", "queue_ack"} < {*scripts}


def test_rows_are_not_begun_that_the_disk_has_no_room_for(tmp_path):
    with pytest.raises(OSError, match="1,000,000,000,000 rows take up to 400,000 GB"):
        require_room(tmp_path, 10**12)


def test_the_plan_of_rows_of_no_file_tells_its_memory_and_disk():
    facts = planned(20_000, "256MB")

    assert 0.3 < facts["copies"] / 20_000 < 0.4
    assert facts["peak_rss_mib"] > 10
    for each in ("manifest_bytes_per_row", "plan_bytes_per_copy"):
        assert 40 < facts[each] < 400
