"""Seed lists: who loads one into a crawl, and how far it is.

What always holds:

1.  One node or command at a time loads a list, under a lock that expires unless it is
    renewed.
2.  A list that a node has loaded stays known as done. A command that is repeated tests
    all lines of its list again, and queues none twice.
3.  While a command loads a list the crawl does not end, nor just after: the nodes have
    time to find what was queued. A node that loads one is busy, and says so.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any

from frontier.errors import CrawlClosed, CrawlLost
from frontier.store.calls import NOW, Argument, Call, Command, Condition, Later
from frontier.store.keys import CrawlKeys, is_same
from frontier.store.lock import hold_calls, is_held, release_call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frontier.store.client import BlockingStore

YOURS, TAKEN, DONE, CLOSED = "yours", "taken", "done", "closed"
"""The lock is the caller's, or another's; or a node has loaded the list, or the crawl
has ended."""
LOCK_MS = 10_000
"""How long a command's lock lasts, and keeps the crawl open, without being renewed."""
GRACE_MS = 3_000
"""How long the crawl stays open after a command's last seed."""
PAUSE = 0.5
"""Seconds between two attempts of a command to take a lock that another has."""


class SeedLock:
    """The right of *holder*, or of this process, to load a seed list into a crawl.

    *on_wait* is called, once, if `hold` has to wait for another command.
    """

    def __init__(
        self,
        keys: CrawlKeys,
        list_id: str,
        holder: str = "",
        *,
        ttl_ms: int = LOCK_MS,
        on_wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._keys = keys
        self._list_id = list_id
        unique = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._key, self._holder = keys.start_lock(list_id), holder or unique
        self._ttl_ms, self._on_wait = ttl_ms, on_wait
        self.start_salt = b""
        """The salt of `carry_call`, once `read` has seen it; empty without one."""

    def hold_calls(self, *, keeps_open: bool = False) -> list[Call]:
        """The calls that take or renew the lock, whose replies `read` reads.

        With *keeps_open*, which a command needs, the crawl stays open meanwhile.
        """
        keys, meta = self._keys, self._keys.meta
        calls = hold_calls(self._key, self._holder, self._ttl_ms)
        if keeps_open:
            mine = self._is_mine(("HGET", meta, "state"), "open")
            noted: list[Command] = [
                ("ZADD", keys.seeding, Later(self._ttl_ms), self._list_id),
                ("ZREMRANGEBYSCORE", keys.seeding, "-inf", NOW),
            ]
            calls.append(Call.txn(mine, noted))
        # After that, as a crawl that is open then stays open while the list is loaded.
        calls.append(Call.command("HMGET", meta, "state", "born", "start_salt"))
        calls.append(Call.command("HGET", keys.seed_lists, self._list_id))
        return calls

    def read(self, replies: Sequence[Any]) -> str:
        """How it is with the lock.

        Raises:
            CrawlLost: The crawl is not in the store any more.
        """
        (state, born, salt), known = replies[-2:]
        if state is None or (born or b"").decode() != self._keys.born:
            raise CrawlLost(self._keys.crawl_id)
        self.start_salt = salt or b""
        if known == DONE.encode():
            return DONE
        if not is_held(replies[:2]):
            return TAKEN
        return YOURS if state == b"open" else CLOSED

    def loaded_call(self) -> Call:
        """The call with which a node notes that every seed is in the store."""
        lists = self._keys.seed_lists
        note = [("HSET", lists, self._list_id, DONE), ("DEL", self._key)]
        return Call.txn(is_same(self._keys), note)

    def done_call(self) -> Call:
        """The call with which a command ends."""
        grace = ("ZADD", self._keys.seeding, Later(GRACE_MS), self._list_id)
        mine = self._is_mine(("EXISTS", self._keys.meta), 1)
        return Call.txn(mine, [("DEL", self._key), grace])

    def _is_mine(self, also: Command, reply: Argument) -> list[Condition]:
        """The conditions of a call for who has the lock, and has *reply* to *also*."""
        return [(("GET", self._key), self._holder), (also, reply)]

    def release_call(self) -> Call:
        """The call that gives the lock back, if it is held, before all is loaded."""
        return release_call(self._key, self._holder)

    def hold(self, store: BlockingStore) -> None:
        """Take or renew the lock for a command; wait while another command has it.

        Raises:
            CrawlClosed: The crawl has ended.
            CrawlLost: It is not in the store any more.
        """
        waited = False
        while True:
            state = self.read(store.run(self.hold_calls(keeps_open=True)))
            if state == YOURS:
                return
            if state == CLOSED:
                store.run([self.release_call()])
                raise CrawlClosed(self._keys.crawl_id)
            if not waited:
                waited = True
                self._on_wait()
            time.sleep(PAUSE)
