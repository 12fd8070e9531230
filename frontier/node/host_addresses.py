"""The classes of addresses to which a crawl may connect (`FRONTIER_ALLOW_ADDRESSES`).

Without the setting its seeds decide, for all nodes: what one seed has led to is
noted in the store. What always holds:

1.  The address that a seed spells (``http://127.0.0.1/``) is allowed. The address that
    a seed's name led to is allowed too, but a name that leads inside counts for nothing
    once another leads to a public address: of a million seeds, some lead to 127.0.0.1
    or 10.0.0.0/8, and which of them came first makes no difference in the end.
2.  Link-local, metadata and reserved addresses are never allowed by a seed.
3.  Nothing is refused without a look at what is noted: the page that led to it may come
    from a seed that another node fetched a moment ago.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from frontier.node.context import Part
from frontier.store.client import Call
from frontier.store.keys import is_same
from frontier.urls.addresses import PUBLIC, SAID

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.node.node import Node


logger = logging.getLogger(__name__)

TYPED, NAMED = "typed", "named"
"""How a seed leads to an address: it spells it, or its name was resolved."""
RECHECK = 1.0
"""Seconds after which to look again whether other nodes' seeds have said more."""


class AddressClasses(Part):
    """Knows which classes are allowed, as far as this node has learned."""

    def __init__(
        self,
        node: Node,
        given: frozenset[str] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node = node
        self._keys = node.keys
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
        the URL has the address itself instead of a name.
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
        """Whether what is allowed rests on names that lead inside, and is not fresh."""
        stale = self._clock() - self._asked >= RECHECK
        return stale and any(self._said.get(kind) != TYPED for kind in self._inside())

    def _inside(self) -> frozenset[str]:
        return self.allowed - {PUBLIC}

    def _would_change(self, kind: str, how: str) -> bool:
        if self._said.get(kind) in {how, TYPED}:
            return False
        return how == TYPED or kind == PUBLIC or PUBLIC not in self._said

    async def _ask(self, kind: str, how: str) -> None:
        meta = self._keys.meta
        then = [("HMGET", meta, *(f"address:{name}" for name in SAID))]
        if kind:  # what a seed spells stays, whatever other seeds lead to
            note = "HSET" if how == TYPED else "HSETNX"
            then.insert(0, (note, meta, f"address:{kind}", how))
        began = self._clock()
        call = Call.txn(is_same(self._keys), then)
        replies = await self._node.answer(call)
        self._asked = began
        if replies is None:  # the crawl is lost, which its heartbeat tells
            return
        self._said = {
            name: TYPED if value == TYPED.encode() else NAMED
            for name, value in zip(SAID, replies[-1], strict=True)
            if value is not None
        }
        typed = {name for name, value in self._said.items() if value == TYPED}
        named = {PUBLIC} if PUBLIC in self._said else set(self._said)
        self.allowed = frozenset(typed | named)
        void = self._said.keys() - self.allowed
        if void and not self._told:
            self._told = True
            logger.warning(
                "the names of some seeds lead to public addresses and those of "
                "others to %s ones: only the public ones are fetched; to allow more, "
                "set FRONTIER_ALLOW_ADDRESSES",
                " and ".join(sorted(void)),
            )
