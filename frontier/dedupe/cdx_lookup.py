"""Asks CDX servers for the originals that the index does not have.

They are only read. What always holds:

1.  No fault of a server makes a capture fail: its payload counts as one that the server
    does not have, and is stored in full.
2.  `CdxServers.lookup` returns after a bounded time: a request takes at most `timeout`
    seconds, `WORKERS` of them run at once, and a server that fails is left alone for a
    while; see `frontier.dedupe.cdx_server`.
3.  An answer counts only if it is a capture, not a revisit, of the URL that was asked
    for (by its SURT key), with the same digest, of http or https, and with a real date
    that is not after the new capture.
4.  No more than `REMEMBERED` originals are kept.

One thread calls `lookup`, and not the reactor's.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from frontier.cdx.lines import Capture, sort_key
from frontier.dedupe.cdx_server import CONNECTIONS, CdxServer, NoAnswer, Wanted
from frontier.dedupe.digest import parse
from frontier.dedupe.digest_index import decode
from frontier.dedupe.revisit_policy import Match, canonical
from frontier.urls.split import WEB, split
from frontier.warc.records import digits, target_uri, warc_date

if TYPE_CHECKING:
    from frontier.model import Original

logger = logging.getLogger(__name__)

WORKERS = CONNECTIONS
"""Requests that are under way at once."""
REMEMBERED = 20_000
"""Originals that are kept. What no server has is in the index after the first time."""
MAX_URL = 4_000
"""The most characters of a URL to ask for: servers refuse long request lines."""


Found: TypeAlias = "tuple[str, Original]"
"""The payload digest by which an original was found, and the original."""


@dataclass(slots=True)
class Asked:
    """Statistics. Only the caller of `lookup` changes them; anyone may read them."""

    asked: int = 0
    """Payloads that were looked up; those remembered are not counted."""
    found: int = 0
    """Payloads whose original a server has, including those remembered."""
    failed: int = 0
    """Look-ups without a usable answer."""
    seconds: float = 0.0
    """Time spent waiting for the answers."""


class CdxServers:
    """The servers at *addresses*, asked in that order.

    A request may take *timeout* seconds. *match* and *canon* tell which captures can be
    originals, as for the index. Threads are started with the first look-up.
    """

    def __init__(
        self,
        addresses: Iterable[str],
        timeout: float,
        match: Match = Match.DIGEST,
        canon: str = "heritrix",
    ) -> None:
        self.asked = Asked()
        self._servers = [CdxServer(address, timeout) for address in addresses]
        self._timeout = timeout
        self._match = match
        self._canon = canon
        self._pool = ThreadPoolExecutor(WORKERS, "frontier-cdx")
        self._known: OrderedDict[tuple[str, str], Found] = OrderedDict()

    def lookup(self, wanted: Sequence[Wanted]) -> dict[Wanted, Found]:
        """The originals that a server has, by payload of *wanted*. Raises nothing."""
        known = self._known
        # The original may have another URL, if URLs do not matter.
        is_shared = self._match in {Match.DIGEST, Match.SAME_URL}
        keys = {x: ("" if is_shared else x.url, x.digests[0]) for x in wanted}
        answers = self._ask([each for each, key in keys.items() if key not in known])
        known.update({keys[each]: found for each, found in answers.items() if found})
        originals = {each: known[key] for each, key in keys.items() if key in known}
        while len(known) > REMEMBERED:
            known.popitem(last=False)
        self.asked.found += len(originals)
        return originals

    def close(self) -> None:
        """Have the threads end when they have nothing to do; do not wait for them."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, wanted: Sequence[Wanted]) -> dict[Wanted, Found | None]:
        """The results for those of *wanted* whose answers came in time."""
        askable = [each for each in wanted if len(each.url) <= MAX_URL]
        awake = sum(not server.is_resting() for server in self._servers)
        if not askable or not awake:
            return {}
        self.asked.asked += len(askable)
        began = time.perf_counter()
        futures = {self._pool.submit(self._look, each): each for each in askable}
        rounds = -(-len(askable) // WORKERS)
        done, late = wait(futures, self._timeout * awake * rounds)
        for future in late:
            future.cancel()
        answers: dict[Wanted, Found | None] = {}
        for future in done:
            error = future.exception()
            if error is None:
                answers[futures[future]] = future.result()
            elif not isinstance(error, NoAnswer):
                # An unforeseen error costs a look-up, not the thread.
                logger.error("a look-up at a CDX server failed", exc_info=error)
        self.asked.seconds += time.perf_counter() - began
        self.asked.failed += len(askable) - len(answers)
        return answers

    def _look(self, wanted: Wanted) -> Found | None:
        """Ask the servers for an original.

        Raises:
            NoAnswer: A server failed, or is left alone, and no other has one.
        """
        failure: NoAnswer | None = None
        for server in self._servers:
            try:
                captures = server.captures(wanted)
            except NoAnswer as error:
                failure = error
                continue
            found = self._original(wanted, captures, server)
            if found is not None:
                return found
        if failure is not None:
            raise failure
        return None

    def _original(
        self, wanted: Wanted, captures: list[Capture], server: CdxServer
    ) -> Found | None:
        """The capture to refer to: one of the same URL if possible, else the first."""
        ours = {parse(digest).algorithm: digest for digest in wanted.digests}
        best: Found | None = None
        others = set()
        for each in captures:
            try:
                digest = parse(each.digest)
            except ValueError:
                continue
            if digest.algorithm not in ours:
                others.add(digest.algorithm)
            elif (known := digest.spelled()) == ours[digest.algorithm]:
                found = self._usable(wanted, each, server)
                if found is not None and found.url == wanted.url:
                    return known, found
                if found is not None:
                    best = best or (known, found)
        if others and best is None:
            server.tell_algorithm(", ".join(sorted(others)), ", ".join(ours))
        return best

    def _usable(
        self, wanted: Wanted, answer: Capture, server: CdxServer
    ) -> Original | None:
        url = target_uri(answer.url)
        value = decode(f"0 {digits(answer.date)} {url} {answer.length}")
        is_revisit = answer.kind == "revisit"
        if value is None or is_revisit or not self._is_match(wanted, url):
            return None
        if value.date[:19] > warc_date(wanted.started)[:19]:
            return None  # an original cannot be later than its revisit
        return replace(value, source=server.name)

    def _is_match(self, wanted: Wanted, url: str) -> bool:
        if url == wanted.url:
            return True
        if self._match is Match.URL or split(url).scheme not in WEB:
            return False
        if self._match is Match.CANONICAL:
            return canonical(url, self._canon) == canonical(wanted.url, self._canon)
        return sort_key(url) == sort_key(wanted.url)
