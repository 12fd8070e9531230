"""The cookies of a crawl, as far as a node has to know them.

They are in *jars*, one for each of Scrapy's ``cookiejar`` values and each registered
domain. An index in the store has the version of each, which grows with each change.

What always holds:

1.  A node uses a jar only if its last look at the index is less than `FRESH` seconds
    old, or began after the jar was wanted, and had no newer version of that jar than
    the node has. One look serves all jars. The first look has to succeed.
2.  A node that has changed a jar goes on `FRESH` seconds after the store has the
    change. So whatever comes of a response, its links and its ack, comes after the
    moment from which every node sends the cookies that the response has set.
3.  While the index does not answer, a node that has looked before goes on with what
    it has: what other nodes are given meanwhile is neither stored nor acked.
4.  When the store was replaced, or started again, it may have forgotten cookies: all
    are read again, and what a node has and the store has not is written again.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from typing_extensions import override

from frontier.errors import StoreUnavailable
from frontier.node.context import Part
from frontier.store.client import Call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.node.node import Node

FRESH = 0.1
"""Seconds for which a look at the index is relied on."""
MAX_COOKIES = 300
"""The most cookies of one jar."""
MAX_BYTES = 5_000
"""The most bytes of a cookie, its name and its domain; browsers keep 4,096 of name and
value."""
MAX_JARS = 100_000
"""The most jars of one crawl."""
PAGE = 1_000
"""Jars whose versions are read at once."""


class Jar:
    """What this node knows of one jar in the store."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 0
        """The version that the node has; 0 if it has none."""
        self.stored: dict[str, str] = {}
        """Its cookies by their fields, as the store had them."""
        self.era = -1
        """The era of the store when it had them; -1 before; see `Cookies.era`."""
        self.lock = asyncio.Lock()
        """Held while it is read or changed."""


class Cookies(Part):
    """Reads and changes the jars of a crawl."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys = node.keys
        self._versions: dict[str, int] = {}
        self._last = 0
        self._looked_at: float | None = None
        self._looking: asyncio.Task[None] | None = None
        self.era = 0
        """Grows when the store may have forgotten cookies."""

    @override
    def went_back(self) -> None:
        """Read everything again."""
        self._versions.clear()
        self._last, self._looked_at, self.era = 0, None, self.era + 1

    def is_current(self, jar: Jar) -> bool:
        """Whether *jar* may be used without asking the store."""
        if not self._is_fresh() or self._is_stale(jar):
            return False
        if self._looked_at is None or time.monotonic() - self._looked_at > FRESH / 2:
            self._begin_look()  # so that the next ones need not wait for it
        return True

    async def refresh(self, jar: Jar) -> dict[str, str] | None:
        """Read *jar* if the store has another version; the caller holds its lock.

        Returns its cookies, or `None` if the node has them already.
        """
        await self._look()
        if not self._is_stale(jar):
            return None
        era, version = self.era, self._versions.get(jar.name, 0)
        read = Call.command("HGETALL", self._keys.jar(jar.name))
        reply = await self._node.answer(read)
        jar.version, jar.era = version, era
        return {_text(field): _text(value) for field, value in reply.items()}

    async def write(self, jar: Jar, changes: Mapping[str, str]) -> tuple[bool, int]:
        """Put *changes* of *jar* into the store; the caller holds its lock.

        A value is empty where the cookie is gone. Returns whether anything in the store
        has changed, and how many cookies had no room.
        """
        era = self.era
        arguments = [part for change in changes.items() for part in change]
        keys = self._keys
        merge = Call.to(
            "cookies_merge",
            [keys.jar(jar.name), keys.cookies(), keys.meta()],
            [jar.name, keys.born, MAX_COOKIES, MAX_JARS, *arguments],
        )
        ((version, before, refused),) = await self._node.run([merge], copied=True)
        jar.era = era
        if version > 0 and before == jar.version:  # no other node's change is missing
            jar.version = version
        return 0 < version != before, int(refused)

    def _is_fresh(self) -> bool:
        looked = self._looked_at
        return looked is not None and time.monotonic() - looked < FRESH

    def _is_stale(self, jar: Jar) -> bool:
        known = self._versions.get(jar.name, 0)
        return known > jar.version or (jar.era != self.era and jar.era >= 0)

    async def _look(self) -> None:
        """Return after a look that is fresh, or that began after this was called."""
        called = time.monotonic()
        while not self._is_fresh():
            await asyncio.shield(self._begin_look())
            if self._looked_at is not None and self._looked_at >= called:
                return

    def _begin_look(self) -> asyncio.Task[None]:
        """The look that is under way, or a new one."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._do_look())
        return self._looking

    async def _do_look(self) -> None:
        has_looked = self._looked_at is not None
        run = self._node.outage_retry.call if has_looked else self._node.run
        while True:
            began = time.monotonic()
            call = Call.command(
                "ZRANGEBYSCORE", self._keys.cookies(), f"({self._last}", "+inf",
                "WITHSCORES", "LIMIT", 0, PAGE,
            )  # fmt: skip
            try:
                (reply,) = await run([call])
            except StoreUnavailable:
                self._looked_at = time.monotonic()
                return
            for name, score in reply:
                self._versions[_text(name)] = self._last = int(score)
            if len(reply) < PAGE:
                self._looked_at = began
                return


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")
