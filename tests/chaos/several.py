"""Stores of several servers: a cluster whose slots move, a primary that fails.

What always holds:

1.  Nodes reach every server, and the Sentinel, through its wire: servers announce
    the wire's port as theirs.
2.  Each server appends every write to a file before it confirms it. What a
    failover loses was not copied to the replica yet.
3.  While a server of the cluster is away no slot is begun to be moved, and none is
    between two servers when one goes away.
"""

import itertools
import signal
import threading
import time
from contextlib import suppress

import redis

from frontier.store.client import BlockingStore, Call
from tests.chaos.durable import transaction
from tests.chaos.plan import Way
from tests.chaos.wire import REPLICA, Wire
from tests.topologies import (
    HOST,
    SERVICE,
    ClusterServers,
    SentinelServers,
    slot_of,
)

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
CAREFUL = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "5")
NODE_TIMEOUT = ("--cluster-node-timeout", "5000")
"""Milliseconds; longer than a server is away, or a machine is busy."""
DOWN_AFTER_MS = 1000
"""A busy machine may keep a primary from answering for half of that."""
KEYS = 3
"""Keys that are moved at a time."""


class Wires:
    """Makes a wire before each server that is started."""

    def __init__(self):
        self.made = []

    def before(self, port):
        """The port of a wire to *port*."""
        wire = Wire(port)
        wire.start()
        self.made.append(wire)
        return wire.port


class DurableCluster:
    """Three primaries, of which each holds slots of the crawl."""

    def __init__(self, binary):
        wires = Wires()
        options = (*DURABLE, *NODE_TIMEOUT)
        self._servers = ClusterServers(
            3, 0, *options, binary=binary, front=wires.before
        )
        self.wires = wires.made
        self._moving = threading.Lock()
        self._end = threading.Event()
        self._threads = []
        self._client = None
        self.moved = 0
        """How many slots were moved."""
        self.keys_moved = 0
        self.longest = 0.0
        """Seconds for which a slot was between two servers."""

    @property
    def url(self):
        """Where nodes connect to."""
        return self._servers.url

    @property
    def direct(self):
        """The same: the servers name their wires to everybody."""
        return self._servers.url

    def start(self):
        """Start it; all slots are served on return."""
        self._servers.start()
        self._client = BlockingStore.from_settings({"REDIS_URL": self.url})

    def read(self, commands):
        """Replies to *commands*, one server after the other."""
        assert self._client is not None
        return self._client.run([Call.command(*command) for command in commands])

    def kill(self, pick=0):
        """``kill -9`` of one server."""
        self._at(pick).kill()

    def revive(self, pick=0):
        """Start a server that was killed, on what its append-only file has."""
        self._at(pick).launch()
        self._at(pick).wait()

    def signal(self, number, pick=0):
        """Send *number* to one server."""
        self._at(pick).signal(number)

    def hold(self):
        """Have no slot be between two servers."""
        self._moving.acquire()

    def release(self):
        """Let slots be moved again."""
        self._moving.release()

    @property
    def pids(self):
        """Of the servers."""
        return [process.pid for process in self._servers.processes]

    def whole(self):
        """Whether all slots are served."""
        with suppress(redis.RedisError, AssertionError):
            return all(map(self._servers.is_whole, self._servers.primaries))
        return False

    def migrate(self, tags, seconds, gap):
        """Move the slots of *tags* around for *seconds*, each in *gap* seconds."""
        thread = threading.Thread(
            target=self._migrate, args=(tags, seconds, gap), name="moves", daemon=True
        )
        self._threads.append(thread)
        thread.start()

    def close(self):
        """End it."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._client is not None:
            self._client.close()
        self._servers.remove()
        for wire in self.wires:
            wire.stop()

    def _at(self, pick):
        primaries = self._servers.primaries
        return primaries[pick % len(primaries)]

    def _migrate(self, tags, seconds, gap):
        limit = time.monotonic() + seconds
        slots = dict.fromkeys(map(slot_of, tags))
        for slot in itertools.cycle(slots):
            with self._moving:
                if self._end.is_set() or time.monotonic() > limit:
                    return
                begin = time.monotonic()
                self._move(slot, gap)
                self.longest = max(self.longest, time.monotonic() - begin)
                self.moved += 1

    def _move(self, slot, gap):
        servers = self._servers
        places = servers.primaries
        target = places[(places.index(servers.owner(slot)) + 1) % len(places)]
        source = servers.begin_move(slot, target)
        pause = gap / 3
        while moved := servers.move_keys(slot, source, target, KEYS):
            self.keys_moved += moved
            self._end.wait(pause)
            pause /= 2
        servers.end_move(slot, target)


class DurableService:
    """A primary and a replica, and a Sentinel that watches over them."""

    def __init__(self, binary, *, careful):
        wires = Wires()
        options = (*DURABLE, *(CAREFUL if careful else ()))
        self._servers = SentinelServers(
            *options, binary=binary, front=wires.before, down_after_ms=DOWN_AFTER_MS
        )
        self.wires = wires.made
        self._clients = {}
        self.primary, self.replica = self._servers.primary, self._servers.replica
        self._gone = None

    @property
    def url(self):
        """Where nodes connect to."""
        return self._servers.url

    @property
    def direct(self):
        """Of the primary, past the wires."""
        return f"redis://{HOST}:{self.primary.port}"

    def start(self):
        """Start it; the replica has what the primary has on return."""
        self._servers.start()

    def read(self, commands):
        """Replies of the primary to *commands*, at one moment."""
        port = self.primary.port
        if port not in self._clients:
            self._clients[port] = redis.Redis(port=port, socket_timeout=5)
        return transaction(self._clients[port], commands)

    def hold(self):
        """It does nothing of its own."""

    release = hold

    @property
    def pids(self):
        """Of the servers and the Sentinel."""
        return [process.pid for process in self._servers.processes]

    def whole(self):
        """Whether the replica could be promoted."""
        with suppress(redis.RedisError, AssertionError):
            info = self.replica.ask("INFO", "replication")
            known = self._servers.sentinel.ask("SENTINEL", "REPLICAS", SERVICE)
            return (
                info["role"] == "slave"
                and info["master_link_status"] == "up"
                and any(
                    int(one[b"port"]) == self.replica.shown
                    and one[b"master-link-status"] == b"ok"
                    and one[b"flags"] == b"slave"
                    for one in known
                )
            )
        return False

    def fall_behind(self, seconds):
        """Have what is copied to the replica be late."""
        for wire in self.wires:
            wire.delays[REPLICA] = seconds

    def fail(self, way):
        """Have the primary be one no more, and lose what it has not copied yet."""
        self._gone = way
        if way is Way.ORDER:
            self._servers.sentinel.ask("SENTINEL", "FAILOVER", SERVICE)
            return
        for wire in self.wires:
            wire.cut(REPLICA)
        if way is Way.KILL:
            self.primary.kill()
        else:
            self.primary.signal(signal.SIGSTOP)
        for wire in self.wires:
            wire.delays.pop(REPLICA, None)

    def promoted(self):
        """Whether the replica has become the primary; it is that here from then on."""
        with suppress(redis.RedisError):
            if self._servers.primary_port() == self.replica.shown:
                self.primary, self.replica = self.replica, self.primary
                return True
        return False

    def come_back(self):
        """Have the old primary be there again."""
        if self._gone is Way.KILL:
            self.replica.launch("--replicaof", f"{HOST} {self.primary.shown}")
        elif self._gone is Way.HANG:
            self.replica.signal(signal.SIGCONT)
        self._gone = None

    def close(self):
        """End it."""
        for client in self._clients.values():
            client.close()
        self._servers.remove()
        for wire in self.wires:
            wire.stop()
