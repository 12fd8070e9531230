"""Which server gets which call, and what is sent again: no I/O of its own.

`Router.run` is told how to send and how to wait, in the event loop or in a thread. For
one server, or the primary that Sentinel names, it is a router with a single place.

What always holds:

1.  A call is sent again only if the server said that it was not executed: MOVED, ASK,
    TRYAGAIN, CLUSTERDOWN, NOSCRIPT. A missing answer ends the run.
2.  The calls of one slot go to one server together and in their order. Those that are
    sent again come after the others: while a slot is being moved, or after somebody
    flushed the scripts, the order within a run is not kept.
3.  Before the first script goes to a server, and again after each of its failures, it
    gets all scripts, in the same round trip.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import redis.exceptions
from redis.crc import key_slot

from frontier.model import frozen
from frontier.store.calls import EVERYWHERE, Argument, Call
from frontier.store.scripts import SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from frontier.store.address import Server

Parts: TypeAlias = tuple[Argument, ...]
Outcome: TypeAlias = list[Any] | BaseException
"""The replies to a batch, including errors; or why there are none."""
Send: TypeAlias = "Callable[[list[Batch]], Awaitable[list[Outcome]]]"
"""Gives for each batch its replies, including errors, or the error that kept it from
being answered."""

SLOTS = 16_384
REDIRECTS = 4
"""Rounds without a pause; servers that disagree send calls back and forth."""
FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.1
PATIENCE = 3.0
"""Seconds for which a slot may be between two servers, or have none."""
NOT_YET = (redis.exceptions.TryAgainError, redis.exceptions.ClusterDownError)
LAYOUT = ("CLUSTER", "SLOTS")
LOADING: tuple[Parts, ...] = tuple(("SCRIPT LOAD", s.source) for s in SCRIPTS.values())


@frozen
class Batch:
    """Commands for one server, in one round trip."""

    server: Server
    commands: list[Parts]


@dataclass(slots=True)
class _Job:
    """A call, or one server's part of a call that goes everywhere."""

    index: int
    call: Call
    slot: int | None
    at: Server | None = None
    """The server that has to do it, whichever has the slot."""
    asked: bool = False
    """Whether it was sent there with ASK."""
    refused: Any = None
    """The error with which it was last sent away."""


class Router:
    """Knows which server has which slot."""

    def __init__(self, seeds: Sequence[Server], *, alone: bool) -> None:
        self.seeds = list(seeds)
        self._owners: list[Server | None] = [None] * SLOTS
        self._stale = not alone
        self._ready: set[Server] = set()
        self._suspects: dict[Server, float] = {}
        self._named: Server | None = None
        """The server that the last MOVED named: it knows the new layout, when others
        may not yet."""
        self.changes = 0
        """How often another server was found to have slots of one that does not answer,
        or all slots of one that did: that is a replica now (``CLUSTER FAILOVER
        TAKEOVER``), and its last writes may be lost. A slot that moves takes its keys
        along. A `Store` counts more here."""
        self.lost: set[Server | None] = set()
        """The servers that have slots whose last writes may be lost, since a `Store`
        was asked; ``None`` for slots that nobody has."""
        self.alone = alone
        """Whether there is one place, where keys of several slots may meet."""

    @property
    def servers(self) -> list[Server]:
        """The servers that have slots, as far as known."""
        if self.alone:
            return self.seeds
        return list(dict.fromkeys(filter(None, self._owners)))

    def note_lost(self, servers: set[Server | None]) -> None:
        """Count a change by which *servers* may lack the last writes."""
        self.changes += 1
        self.lost |= servers

    def owner(self, key: str) -> Server | None:
        """The server that has *key*, as far as known."""
        return self.seeds[0] if self.alone else self._owners[key_slot(key.encode())]

    async def run(
        self,
        calls: Sequence[Call],
        send: Send,
        wait: Callable[[float], Awaitable[object]],
    ) -> list[Any]:
        """Have *calls* sent, and return their replies.

        Raises:
            Exception: The error that kept a batch from being answered.
        """
        answers: list[list[Any]] = [[] for _ in calls]
        if self._stale and calls:
            await self._look(send)
        if (
            self.alone  # as mostly; then all goes in one batch, unless scripts lack
            and calls
            and (self.seeds[0] in self._ready or not any(one.script for one in calls))
        ):
            alone = Batch(self.seeds[0], [call.parts for call in calls])
            (outcome,) = await send([alone])
            if isinstance(outcome, BaseException):
                self._distrust(self.seeds[0])
                raise outcome
            if not any(map(_is_noscript, outcome)):
                return outcome
            self._ready.clear()
            answers = [[] if _is_noscript(one) else [one] for one in outcome]
        jobs = [job for job in self._jobs(calls) if not answers[job.index]]
        rounds, pause, deadline = 0, FIRST_PAUSE, time.monotonic() + PATIENCE
        while jobs:
            again = []
            for job, reply, server in await self._send(jobs, send):
                if self._goes_again(job, reply, server):
                    again.append(job)
                else:
                    answers[job.index].append(reply)
            jobs = sorted(again, key=lambda job: job.index)
            rounds += 1
            if rounds > REDIRECTS or any(isinstance(j.refused, NOT_YET) for j in jobs):
                if time.monotonic() > deadline:
                    for job in jobs:
                        answers[job.index].append(job.refused)
                    break
                await wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            if self._stale and jobs:
                await self._look(send)
        return [self._reply(*one) for one in zip(calls, answers, strict=True)]

    def _reply(self, call: Call, found: list[Any]) -> Any:
        """The reply to *call*, of which *found* are those of its servers."""
        if self.alone or call.server is not None or call.name not in EVERYWHERE:
            return found[0]
        return next((one for one in found if isinstance(one, Exception)), found)

    def _jobs(self, calls: Sequence[Call]) -> list[_Job]:
        jobs: list[_Job] = []
        slot: int | None = None
        for index, call in enumerate(calls):
            if self.alone:
                jobs.append(_Job(index, call, None, self.seeds[0]))
            elif call.server is not None:
                jobs.append(_Job(index, call, None, call.server))
            elif call.name in EVERYWHERE:
                jobs += [_Job(index, call, None, server) for server in self.servers]
            else:
                slot = slot if call.key is None else key_slot(call.key)
                jobs.append(_Job(index, call, slot))
        return jobs

    async def _send(
        self, jobs: Sequence[_Job], send: Send
    ) -> list[tuple[_Job, Any, Server]]:
        groups: dict[Server, list[_Job]] = {}
        nobodys = []
        for job in jobs:
            server = job.at or self._owners[job.slot or 0]
            if server is None:
                nobodys.append(job)
            else:
                groups.setdefault(server, []).append(job)
        found: list[tuple[_Job, Any, Server]] = []
        for job in nobodys:
            down = redis.exceptions.ClusterDownError(f"slot {job.slot} is nobody's")
            found.append((job, down, self.seeds[0]))
        if not groups:
            return found
        outcomes = await send([self._batch(*group) for group in groups.items()])
        failure = None
        for (server, group), outcome in zip(groups.items(), outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self._distrust(server)
                failure = failure or outcome
                continue
            self._suspects.pop(server, None)  # from now on its slots may move
            extra = len(outcome) - sum(1 + job.asked for job in group)
            replies = iter(outcome[extra:])
            self._ready.update([server] if extra else [])
            for job in group:
                if job.asked:
                    next(replies)
                reply = next(replies)
                if _is_noscript(reply) and extra and isinstance(outcome[0], Exception):
                    reply = outcome[0]  # why it could not be loaded
                found.append((job, reply, server))
        if failure is not None:
            raise failure
        return found

    def _batch(self, server: Server, group: Sequence[_Job]) -> Batch:
        commands: list[Parts] = []
        if server not in self._ready and any(job.call.script for job in group):
            commands += LOADING
        for job in group:
            commands += [("ASKING",)] if job.asked else []
            commands.append(job.call.parts)
        return Batch(server, commands)

    def _goes_again(self, job: _Job, reply: Any, server: Server) -> bool:
        """Whether *reply* says that *job* was not done; note where it has to go."""
        if _is_noscript(reply):
            self._ready.discard(server)
        elif isinstance(reply, redis.exceptions.AskError) and not self.alone:
            there = (reply.host or server[0], reply.port)
            if isinstance(reply, redis.exceptions.MovedError):
                self._stale, self._named = True, there
                job.at, job.asked = None, False
            else:
                job.at, job.asked = there, True
        elif isinstance(reply, NOT_YET) and not self.alone:
            self._stale |= isinstance(reply, redis.exceptions.ClusterDownError)
            if job.slot is not None:
                job.at, job.asked = None, False  # ask the slot's owner once more
        else:
            return False
        job.refused = reply
        return True

    def _distrust(self, server: Server) -> None:
        """Note that *server* did not answer: it may have lost slots and scripts."""
        self._stale = not self.alone
        self._ready.discard(server)
        self._suspects[server] = time.monotonic()

    async def _look(self, send: Send) -> None:
        """Ask one server after another for the layout, the silent ones last."""
        failure: BaseException | None = None
        named, self._named = self._named, None
        every = sorted(
            dict.fromkeys([*self.servers, *self.seeds]),
            key=lambda one: self._suspects.get(one, 0.0),
        )
        for server in dict.fromkeys([*([named] if named else []), *every]):
            (outcome,) = await send([Batch(server, [LAYOUT])])
            if not isinstance(outcome, BaseException) and isinstance(outcome[0], list):
                found = _layout(outcome[0], server)
                pairs = set(zip(self._owners, found, strict=True))
                left = {old for old, _ in pairs if old} - {new for _, new in pairs}
                moved = {old for old, new in pairs if old != new}
                if gone := left | moved.intersection(self._suspects):
                    self.note_lost({new for old, new in pairs if old in gone})
                self._owners = found
                self._suspects.pop(server, None)
                self._stale = False
                return
            if isinstance(outcome, BaseException):
                self._suspects[server] = time.monotonic()
                failure = outcome
            elif failure is None:
                failure = outcome[0]
        raise failure or redis.exceptions.ConnectionError("there is no server to ask")


def _is_noscript(reply: Any) -> bool:
    return isinstance(reply, redis.exceptions.NoScriptError)


def _layout(reply: list[Any], asked: Server) -> list[Server | None]:
    """Each slot's server, by the reply of *asked* to ``CLUSTER SLOTS``."""
    owners: list[Server | None] = [None] * SLOTS
    for first, last, (host, port, *_), *_ in reply:
        server = ((host or b"").decode() or asked[0], int(port))
        owners[first : last + 1] = [server] * (last + 1 - first)
    return owners
