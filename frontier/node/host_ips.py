"""The addresses of hosts, where ``FRONTIER_QUEUE_KEY`` is ``ip``.

What always holds:

1.  A crawl has one address per host, the first that a node noted, for as long
    as it lasts: names may get other addresses while it runs, places may not.
2.  A host that has none is noted by its name.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING

from frontier.errors import CrawlLost
from frontier.store.client import Call
from frontier.store.scripts import ADDRESS_NOTE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys
    from frontier.store.outage_retry import OutageRetry

LOOKUPS = 20
"""Hosts that are looked up at a time."""
MAX_LENGTH = 255
MAX_KNOWN = 100_000
"""Hosts whose addresses a node keeps in memory; the crawl has noted them all."""


class Addresses:
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
            (noted,) = await self._outage_retry.retry(
                [_note(self._keys, host, address)]
            )
            if noted is None:
                raise CrawlLost(self._keys.crawl_id)
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
            found = self._known[host] = _text(value, host)
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
    names = [keys.meta(), keys.addresses()]
    return Call.to(ADDRESS_NOTE, names, [keys.born, host, address])


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
