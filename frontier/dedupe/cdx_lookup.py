"""CDX servers are asked for the originals that the index does not have.

They are only read. What always holds:

1.  No fault of a server fails a capture: its payload counts as one that the server
    does not have, and is stored in full.
2.  `CdxServers.lookup` returns after a bounded time: a request takes at most `timeout`
    seconds, `WORKERS` run at once, and a server that fails is left alone for a while;
    see `frontier.dedupe.cdx_server`.
3.  An answer counts only if it is a capture, not a revisit, of the URL that was asked
    for (by its SURT key), with the same digest, of http or https, and with a real date
    that is not after the new capture.
4.  No more than `REMEMBERED` results are kept.

One thread calls `lookup`, and not the reactor's.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frontier.cdx.lines import REVISIT, sort_key
from frontier.dedupe.cdx_server import CONNECTIONS, CdxServer, NoAnswer, Wanted
from frontier.dedupe.digest import parse, spelled
from frontier.dedupe.digest_index import decode
from frontier.dedupe.revisit_policy import Match, canonical
from frontier.model import Original
from frontier.warc.records import target_uri, warc_date

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontier.dedupe.cdx_server import Answer

logger = logging.getLogger(__name__)

WORKERS = CONNECTIONS
"""Requests that are under way at once."""
REMEMBERED = 20_000
"""Results that are kept, of what is and of what is not there."""
MAX_URL = 4_000
"""Characters of a URL that is asked for: servers refuse long request lines."""


Found = tuple[str, Original]
"""An original, and that of the payload's digests by which it was found."""


@dataclass(slots=True)
class Asked:
    """What came of it. Only the caller of `lookup` changes it; anyone may read."""

    asked: int = 0
    """Payloads that were looked up; those remembered are not counted."""
    found: int = 0
    """Payloads whose original a server has, the remembered ones too."""
    failed: int = 0
    """Look-ups without an answer that could be used."""
    seconds: float = 0.0
    """Time spent waiting for the answers."""


@dataclass(slots=True)
class _Batch:
    """Look-ups that somebody waits for, until `over`."""

    left: int
    changed: threading.Condition = field(default_factory=threading.Condition)
    over: bool = False


@dataclass(slots=True)
class _Job:
    wanted: Wanted
    batch: _Batch
    found: Found | None = None
    failed: bool = False
    server: CdxServer | None = None
    """The one that is being asked."""
    done: bool = False
    """Whether the rest is final; guarded by the batch's lock."""


class CdxServers:
    """The servers at *addresses*, asked in that order.

    A request may take *timeout* seconds. *match* and *canon* tell which captures
    are originals of which, as for the index. The threads do not keep the process
    alive, and are started with the first look-up.
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
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._known: OrderedDict[tuple[str, str], Found | None] = OrderedDict()

    def lookup(self, wanted: Sequence[Wanted]) -> dict[Wanted, Found]:
        """The originals of those of *wanted* that a server has. Raises nothing."""
        found: dict[Wanted, Found] = {}
        unknown = []
        for each in dict.fromkeys(wanted):
            known = self._remembered(each)
            if known is not None:
                found[each] = known
            elif (each.url, each.digests[0]) not in self._known:
                unknown.append(each)
        for job in self._ask(unknown):
            if job.found is not None:
                found[job.wanted] = job.found
            if not job.failed:
                self._remember(job.wanted, job.found)
        self.asked.found += len(found)
        return found

    def close(self) -> None:
        """End the threads when they have nothing to do; waits for none."""
        for _ in self._threads:
            self._jobs.put(None)

    def _remembered(self, wanted: Wanted) -> Found | None:
        if self._by_digest() and (found := self._known.get(("", wanted.digests[0]))):
            return found
        return self._known.get((wanted.url, wanted.digests[0]))

    def _remember(self, wanted: Wanted, found: Found | None) -> None:
        self._known[wanted.url, wanted.digests[0]] = found
        if found is not None and self._by_digest():
            self._known["", wanted.digests[0]] = found
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _by_digest(self) -> bool:
        return self._match in {Match.DIGEST, Match.SAME_URL}

    def _ask(self, wanted: Sequence[Wanted]) -> list[_Job]:
        askable = [each for each in wanted if len(each.url) <= MAX_URL]
        awake = sum(not server.is_resting() for server in self._servers)
        if not askable or not awake:
            return []
        self.asked.asked += len(askable)
        batch = _Batch(len(askable))
        jobs = [_Job(each, batch) for each in askable]
        self._start_threads(len(jobs))
        for job in jobs:
            self._jobs.put(job)
        rounds = -(-len(jobs) // WORKERS)
        began = time.perf_counter()
        with batch.changed:
            limit = self._timeout * awake * rounds
            batch.changed.wait_for(lambda: not batch.left, limit)
            batch.over = True
            done = [job for job in jobs if job.done]
            late = {job.server for job in jobs if not job.done and job.server}
        for server in late:
            server.failed(f"no answer within {limit:g} s")
        self.asked.seconds += time.perf_counter() - began
        self.asked.failed += len(jobs) - sum(not job.failed for job in done)
        return done

    def _start_threads(self, jobs: int) -> None:
        for _ in range(min(WORKERS, jobs) - len(self._threads)):
            thread = threading.Thread(
                target=self._work, name="frontier-cdx", daemon=True
            )
            thread.start()
            self._threads.append(thread)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._look(job)
            except Exception:
                # What nobody thought of costs a look-up, not the thread.
                logger.exception("a look-up at a CDX server failed")
                job.failed = True
            with job.batch.changed:
                job.done = True
                job.batch.left -= 1
                job.batch.changed.notify()

    def _look(self, job: _Job) -> None:
        for server in self._servers:
            if job.batch.over:
                return
            if server.is_resting():
                job.failed = True
                continue
            job.server = server
            try:
                captures = server.captures(job.wanted)
            except NoAnswer as error:
                job.failed = True
                server.failed(str(error), overloaded=error.overloaded)
                continue
            job.found = self._original(job.wanted, captures, server)
            if job.found is not None:
                job.failed = False
                return

    def _original(
        self, wanted: Wanted, captures: list[Answer], server: CdxServer
    ) -> Found | None:
        """The capture to refer to: of the very URL if there is one, then the first."""
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
            elif (known := spelled(digest)) == ours[digest.algorithm]:
                found = self._usable(wanted, each, server)
                if found is not None and found.url == wanted.url:
                    return known, found
                if found is not None:
                    best = best or (known, found)
        if others and best is None:
            server.tell_algorithm(", ".join(sorted(others)), ", ".join(ours))
        return best

    def _usable(
        self, wanted: Wanted, answer: Answer, server: CdxServer
    ) -> Original | None:
        url = target_uri(answer.url)
        length = answer.length if answer.length.isdecimal() else "0"
        value = decode(f"0 {answer.timestamp} {url} {length}")
        if value is None or answer.mime == REVISIT or not self._is_match(wanted, url):
            return None
        if value.date[:19] > warc_date(wanted.started)[:19]:
            return None  # an original is not later than what refers to it
        return Original(value.url, value.date, "", value.length, source=server.name)

    def _is_match(self, wanted: Wanted, url: str) -> bool:
        if url == wanted.url:
            return True
        if self._match is Match.URL or urlsplit(url).scheme not in {"http", "https"}:
            return False
        if self._match is Match.CANONICAL:
            return canonical(url, self._canon) == canonical(wanted.url, self._canon)
        return sort_key(url) == sort_key(wanted.url)
