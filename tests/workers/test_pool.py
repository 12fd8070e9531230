"""Workers are real processes, and are really killed."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from frontier.errors import WorkerFailed
from frontier.workers import pool as pools
from frontier.workers.pool import WorkerPool
from frontier.workers.process import JOBS
from tests.harness.commands import printed

ROOT = Path(__file__).parents[2]
PLENTY = 60.0
PAGE = b"<title>t</title><a href=/x>"
HUGE = b"".join(b"<a href=x/%d>" % n for n in range(50_000))
GIVEN = {"url": "http://a.example/", "encoding": "utf-8", "is_html": True}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")


@pytest.fixture(autouse=True)
def _busy_machine(monkeypatch):
    """A worker may have to wait for its turn for long."""
    monkeypatch.setattr(pools, "LEAST_WAIT", PLENTY)


@pytest.fixture
def pool_of(stack):
    """Make a pool that is closed at the end of the test."""

    def pool_of(processes=1, seconds=PLENTY, max_bytes=10**9):
        pool = WorkerPool(processes, seconds, max_bytes)
        stack.push_async_callback(pool.close)
        return pool

    return pool_of


@pytest.fixture
def pool(pool_of):
    return pool_of()


async def links_of(pool, content=PAGE, **given):
    parts = [part async for part in pool.run("links", content, {**GIVEN, **given})]
    return [link for part in parts[:-1] for link in part]


def pids(node="self"):
    """The workers that the process *node* has, working or idle."""
    children = list[str]()
    for task in Path(f"/proc/{node}/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of a thread that has ended
            children += (task / "children").read_text().split()
    started = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children}
    return sorted(int(pid) for pid, line in started.items() if b"workers" in line)


async def worker_of(pool):
    """The process of a worker of *pool* that has done a job."""
    await links_of(pool)
    (pid,) = pids()
    return pid


async def stopped_in_a_job(pool):
    """The process of a worker that does not go on, and its job."""
    pid = await worker_of(pool)
    os.kill(pid, signal.SIGSTOP)
    job = asyncio.create_task(links_of(pool))
    await asyncio.sleep(0.05)
    assert not job.done()
    return pid, job


async def until(condition):
    async with asyncio.timeout(PLENTY):
        while not condition():
            await asyncio.sleep(0.01)


def state_of(pid):
    """The letter that /proc has for the state of *pid*: ``Z`` if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


async def test_workers_start_with_the_first_job_and_are_reused(pool_of):
    pool = pool_of(processes=3)
    assert pids() == []
    for _ in range(5):
        assert await links_of(pool) == ["http://a.example/x"]
    (pid,) = pids()
    await asyncio.gather(*(links_of(pool, HUGE) for _ in range(4)))
    assert len(pids()) <= 3
    assert pid in pids()
    await pool.close()
    await until(lambda: not pids())


@on_linux
async def test_a_worker_waits_while_nobody_reads_its_parts(pool):
    parts = pool.run("links", HUGE, GIVEN)
    sizes = [len(await anext(parts))]
    process = Path(f"/proc/{pids()[0]}")

    def written():
        return int((process / "io").read_text().split("wchar: ")[1].split()[0])

    await until(lambda: state_of(process.name) == "S")
    before = written()
    sizes += [len(part) async for part in parts]
    assert sum(sizes[:-1]) == 50_000
    assert max(sizes) <= 2_000
    assert before < written() / 2


async def test_a_job_beyond_its_cpu_time_is_killed_and_its_worker_replaced(pool_of):
    pool = pool_of(seconds=0.5)  # it needs 0.02 s to begin
    said = r"links of http://a\.example/: it takes more than 0\.5 s of CPU time"
    with pytest.raises(WorkerFailed, match=said):
        await links_of(pool, HUGE * 8)
    await until(lambda: not pids())
    assert await links_of(pool) == ["http://a.example/x"]


async def test_only_the_cpu_time_of_the_worker_counts(pool_of):
    async def links_of_beside(pool):
        limit = time.process_time() + 0.5
        while time.process_time() < limit:  # the node is busy; the worker waits
            await asyncio.sleep(0)

    pool = pool_of(seconds=5)
    parts = pool.run("links", HUGE, GIVEN)
    await anext(parts)
    (pid,) = pids()
    await links_of_beside(pool)
    async for _ in parts:
        pass
    assert pids() == [pid]


async def test_a_job_beyond_its_memory_is_refused(pool_of):
    pool = pool_of(max_bytes=150_000_000)
    with pytest.raises(WorkerFailed, match="more memory than a worker has"):
        await links_of(pool, b"<br>" * 15_000_000)
    assert await links_of(pool) == ["http://a.example/x"]


async def test_a_fault_in_a_job_reaches_its_caller(pool):
    with pytest.raises(WorkerFailed, match="unknown encoding: klingon"):
        await links_of(pool, encoding="klingon")
    with pytest.raises(ValueError, match="no job is called 'eval'"):
        await anext(pool.run("eval", b"", {}))


async def test_a_job_whose_worker_was_killed_by_others_is_done_by_another(pool):
    pid, job = await stopped_in_a_job(pool)
    os.kill(pid, signal.SIGKILL)
    assert await job == ["http://a.example/x"]
    assert pids() != [pid]


async def test_a_job_that_has_returned_a_part_is_not_repeated(pool):
    parts = pool.run("links", HUGE, GIVEN)
    await anext(parts)
    os.kill(pids()[0], signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="ended with signal 9"):
        async for _ in parts:
            pass


async def test_a_worker_that_was_killed_while_idle_is_not_given_a_job(pool):
    pid = await worker_of(pool)
    os.kill(pid, signal.SIGKILL)
    assert await links_of(pool) == ["http://a.example/x"]
    assert pids() != [pid]


async def test_a_silent_worker_is_killed(monkeypatch, pool):
    await links_of(pool)
    os.kill(pids()[0], signal.SIGSTOP)
    monkeypatch.setattr(pools, "PATIENCE", 0.01)
    monkeypatch.setattr(pools, "LEAST_WAIT", 0.0)
    monkeypatch.setattr(pools, "GRACE", 0.05)
    with pytest.raises(WorkerFailed, match=r"was not done after 0\.6 s"):
        await links_of(pool)
    await until(lambda: not pids())


async def test_a_canceled_job_ends_its_worker(pool):
    _, job = await stopped_in_a_job(pool)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    await until(lambda: not pids())
    assert await links_of(pool) == ["http://a.example/x"]


async def test_a_closed_pool_has_no_worker_and_refuses_jobs(pool):
    pid = await worker_of(pool)
    await pool.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(WorkerFailed, match="closing"):
        await links_of(pool)


async def test_workers_heed_neither_a_terminal_nor_a_service_manager(pool):
    pid = await worker_of(pool)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
    assert await links_of(pool) == ["http://a.example/x"]
    assert pids() == [pid]
    assert os.getsid(pid) == pid


NODE = """
import asyncio, signal, os, sys
from frontier.workers.pool import WorkerPool
from tests.workers.test_pool import pids
async def main():
    pool = WorkerPool(2, 60, 10**9)
    given = {given}
    parts = [pool.run("links", {content}, given) for _ in range(2)]
    for each in parts:
        await anext(each)
    os.kill(pids()[0], signal.SIGSTOP)
    print(*pids(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@on_linux
def test_workers_end_with_their_node_even_stopped_ones():
    content = "b'<a href=x>' + b'<p><a href=y>' * 400_000"
    code = NODE.format(given=GIVEN, content=content)
    node = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )

    assert node.returncode == -signal.SIGKILL, node.stderr
    pids = [int(pid) for pid in node.stdout.split()]
    assert len(pids) == 2
    asyncio.run(until(lambda: set(map(state_of, pids)) == {"Z"}))


@on_linux
async def test_a_worker_inherits_no_secret_and_no_socket(monkeypatch, pool):
    monkeypatch.setenv("REDIS_URL", "redis://:secret@a.example")

    await links_of(pool)
    process = Path(f"/proc/{pids()[0]}")
    assert b"REDIS" not in (process / "environ").read_bytes()
    assert b"secret" not in (process / "cmdline").read_bytes()
    kinds = [str(path.readlink()) for path in (process / "fd").iterdir()]
    assert len(kinds) == 4, kinds  # two to the node, what it logs, what it prints
    assert sum(kind.startswith("socket:") for kind in kinds) <= 1


def test_jobs_need_no_framework():
    modules = {path.partition(":")[0] for path in JOBS.values()}
    code = (
        f"import sys, json; [__import__(name) for name in {sorted(modules)}];"
        "print(json.dumps(sorted({'scrapy', 'twisted', 'redis'} & set(sys.modules))))"
    )

    assert json.loads(printed(code, cwd=ROOT)) == []
