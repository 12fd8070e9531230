"""The addresses of hosts, where ``FRONTIER_QUEUE_KEY`` is ``ip``.

What always holds:

1.  A crawl has one address per host, the first that a node noted, for as long
    as it lasts: names may get other addresses while it runs, places may not.
2.  A host that has none is noted by its name.

The classes of addresses to which a crawl may connect (`FRONTIER_ALLOW_ADDRESSES`).

Without the setting its seeds say them, to all nodes: what one seed has led to is
noted in the store. Of that always holds:

1.  What a seed spells (``http://127.0.0.1/``) is allowed. What a name led to is
    allowed too, but a name that leads inside says nothing once another leads to a
    public address: of a million seeds, some lead to 127.0.0.1 or 10.0.0.0/8, and
    which of them came first makes no difference in the end.
2.  Link-local, metadata and reserved addresses are never allowed by a seed.
3.  Nothing is refused without a look at what is noted: the page that led to it was
    found by a seed that another node may have fetched a moment ago.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import socket
import time
from typing import TYPE_CHECKING

from frontier.errors import CrawlLost
from frontier.node.context import Part
from frontier.store.client import Call
from frontier.store.keys import is_same
from frontier.store.scripts import ADDRESS_SAY
from frontier.urls.addresses import PUBLIC, SAID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry


logger = logging.getLogger(__name__)

LOOKUPS = 20
"""Hosts that are looked up at a time."""
MAX_LENGTH = 255
MAX_KNOWN = 100_000
"""Hosts whose addresses a node keeps in memory; the crawl has noted them all."""


class Addresses(Part):
    """What the crawl has noted, as far as this node knows it."""

    def __init__(self, outage_retry: OutageRetry, keys: CrawlKeys) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._known: dict[str, str] = {}
        self._going: dict[str, asyncio.Task[str]] = {}
        self._room = asyncio.Semaphore(LOOKUPS)

    def known(self, host: str) -> str | None:
        """The address noted of *host*; ``None`` if this node does not know it."""
        return self._known.get(host) or literal(host)

    async def find(self, host: str) -> None:
        """Have the address of *host* known here, after a look-up if need be."""
        if self.known(host):
            return
        if host not in self._going:
            self._going[host] = asyncio.create_task(self._find(host))
        try:
            address = await asyncio.shield(self._going[host])
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[host] = address
        finally:
            self._going.pop(host, None)

    async def _find(self, host: str) -> str:
        read = Call.command("HGET", self._keys.addresses(), host)
        (noted,) = await self._outage_retry.retry([read])
        if noted is None:
            async with self._room:
                address = await asyncio.to_thread(look_up, host)
            (found,) = await self._outage_retry.retry(
                [_note(self._keys, host, address)]
            )
            if found is None:
                raise CrawlLost(self._keys.crawl_id)
            noted = found[-1]
        return _text(noted, host)


class BlockingAddresses:
    """The same for commands, which may wait."""

    def __init__(self, store: BlockingStore, keys: CrawlKeys) -> None:
        self._store = store
        self._keys = keys
        self._known: dict[str, str] = {}

    def find(self, host: str) -> str:
        """The address of *host*, looked up and noted if it is not."""
        found = self.noted(host)
        if found is None:
            value = self._store.call(_note(self._keys, host, look_up(host)))
            if value is None:
                raise CrawlLost(self._keys.crawl_id)
            found = self._known[host] = _text(value[-1], host)
        return found

    def noted(self, host: str) -> str | None:
        """The address that is noted of *host*, or ``None``."""
        found = self._known.get(host) or literal(host)
        if found is None:
            value = self._store.call(Call.command("HGET", self._keys.addresses(), host))
            if value is None:
                return None
            found = _text(value, host)
        self._known[host] = found
        return found


def _note(keys: CrawlKeys, host: str, address: str) -> Call:
    """The call that replies `None` if the crawl is gone, else what is noted, last."""
    name = keys.addresses()
    note = [("HSETNX", name, host, address), ("HGET", name, host)]
    return Call.txn(is_same(keys), note)


def literal(host: str) -> str | None:
    """*host*, if it is an address itself; the empty host is its own."""
    if not host:
        return host
    try:
        return ipaddress.ip_address(host.strip("[]")).compressed
    except ValueError:
        return None


def look_up(host: str) -> str:
    """An address of *host*, the same wherever they come in another order."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return host
    return least(str(address[4][0]) for address in found) or host


def least(addresses: Iterable[str]) -> str | None:
    """The least of *addresses*; those of IPv4 come first."""
    values = [ipaddress.ip_address(a.partition("%")[0]) for a in addresses]
    values.sort(key=lambda value: (value.version, int(value)))
    return values[0].compressed if values else None


def _text(noted: bytes, host: str) -> str:
    """What is *noted* of *host*, if it can be a queue key."""
    text = noted.decode("utf-8", "replace")
    return text if 0 < len(text) <= MAX_LENGTH and text.isprintable() else host


TYPED, NAMED = "typed", "named"
"""How a seed leads to an address: it spells it, or its name was resolved."""
RECHECK = 1.0
"""Seconds after which is looked again if other nodes' seeds have said more."""


class AddressClasses(Part):
    """What is allowed, as far as this node knows."""

    def __init__(
        self,
        outage_retry: OutageRetry,
        keys: CrawlKeys,
        given: frozenset[str] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._outage_retry = outage_retry
        self._keys = keys
        self._clock = clock
        self._given = given
        self.allowed: frozenset[str] = given or frozenset()
        """The classes; without the setting, empty before a seed has said one."""
        self._said: dict[str, str] = {}
        self._asked = -math.inf
        self._told = False

    def known(self, kind: str) -> bool:
        """Whether *kind* is allowed, and no other node can have changed that."""
        if self._given is not None:
            return kind in self._given
        return kind in self.allowed and not self._may_change()

    async def permits(self, kind: str, *, is_seed: bool, spelled: bool) -> bool:
        """Whether a request that leads to *kind* may be sent.

        *is_seed* is whether the operator asked for its URL, and *spelled* whether
        the URL has the address itself, and no name.
        """
        if self._given is not None:
            return kind in self._given
        if self.known(kind):
            return True
        if kind not in SAID:
            return False
        how = TYPED if spelled else NAMED
        says = is_seed or (not self._said and not spelled)
        if says and self._would_change(kind, how):
            await self._ask(kind, how)
        else:
            await self._ask("", "")  # another node may have learned it just now
            if not self._said and says:
                await self._ask(kind, how)
        return kind in self.allowed

    def _may_change(self) -> bool:
        """Whether what is allowed rests on names that lead inside."""
        stale = self._clock() - self._asked >= RECHECK
        return stale and any(self._said.get(kind) != TYPED for kind in self._inside())

    def _inside(self) -> frozenset[str]:
        return self.allowed - {PUBLIC}

    def _would_change(self, kind: str, how: str) -> bool:
        if self._said.get(kind) in {how, TYPED}:
            return False
        return how == TYPED or kind == PUBLIC or PUBLIC not in self._said

    async def _ask(self, kind: str, how: str) -> None:
        field = f"address:{kind}" if kind else ""
        call = Call.to(ADDRESS_SAY, [self._keys.meta()], [field, how, self._keys.born])
        began = self._clock()
        (reply,) = await self._outage_retry.retry([call])
        self._asked = began
        if not isinstance(reply, list):  # the crawl is lost, which its heartbeat tells
            return
        self._said = {
            name: TYPED if value == TYPED.encode() else NAMED
            for name, value in zip(SAID, reply, strict=True)
            if value is not None
        }
        typed = {name for name, value in self._said.items() if value == TYPED}
        named = {PUBLIC} if PUBLIC in self._said else set(self._said)
        self.allowed = frozenset(typed | named)
        void = self._said.keys() - self.allowed
        if void and not self._told:
            self._told = True
            logger.warning(
                "some seeds lead to public addresses and others by their names to %s "
                "ones: only the public are fetched; FRONTIER_ALLOW_ADDRESSES says "
                "otherwise",
                " and ".join(sorted(void)),
            )
