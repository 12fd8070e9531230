"""What is sent to a store, commands and runs of scripts, and the copies waited for.

A server confirms a write before any other has it. ``WAIT`` and ``WAITAOF`` return once
all that was written on the same connection before is copied, to replicas or to the
server's disk; so one of them goes out behind the calls of a round trip, to each server
that gets a script of it.

A script may do the same for many partitions (`Script.parts`). `joined` makes one call
of several for a server that has all keys, and `apart` gives each its reply again.

What always holds:

1.  What `Copies` is given to counts as done only when all copies are there. If they are
    late that is no answer, and it is sent again: only for calls that may happen twice,
    and that write each time (`WAIT` waits for the last write of its connection).
2.  A replica counts only once it has confirmed something. A server without an
    append-only file that never had a replica counts no writes, so `WAIT` for one of
    them is content with a replica that was sent the data and has not loaded them yet.
3.  Calls that are joined happen in their order, and each has the reply, an error too,
    that it would have by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.store.scripts import Script


Argument = str | bytes | int | float
_Parts = tuple[Argument, ...]

EVERYWHERE = frozenset(("CONFIG", "INFO", "KEYS", "SCRIPT", "WAIT", "WAITAOF"))
"""Commands that go to all primaries of a cluster."""
ANYWHERE = frozenset(("PING", "TIME", "CLUSTER"))
"""Commands without a key; they go where the call before them goes."""
SECOND = frozenset(("MEMORY", "OBJECT"))
"""Commands that have a word before their key."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command or script, ready to be sent."""

    parts: _Parts
    script: Script | None = None

    @classmethod
    def command(cls, *parts: Argument) -> Call:
        """The command *parts*, its name first; its key, if any, comes next."""
        return cls(parts)

    @classmethod
    def to(
        cls, script: Script, keys: Sequence[str], args: Sequence[Argument] = ()
    ) -> Call:
        """A run of *script* with *keys* and *args*."""
        return cls(("EVALSHA", script.sha, len(keys), *keys, *args), script)

    @property
    def name(self) -> str:
        """The command's first word, in capitals."""
        return str(self.parts[0]).split(" ", 1)[0].upper()

    @property
    def key(self) -> bytes | None:
        """The key that tells where on a cluster the call belongs, if it has one."""
        if self.script is not None:
            key = self.parts[3]
        elif self.name in EVERYWHERE or self.name in ANYWHERE:
            return None
        else:
            first = str(self.parts[0]).upper()  # which may have both words
            key = self.parts[2 if first in SECOND else 1]
        return key if isinstance(key, bytes) else str(key).encode()


TOGETHER = 64
"""Partitions that one call of a script is for: nothing else happens on the server
meanwhile, and each takes it 1 to 10 microseconds."""


def joined(calls: Sequence[Call]) -> tuple[list[Call], list[int]]:
    """*calls* for a server that has all keys, and how many of *calls* each stands for.

    Neighbours that run the same script, each for one partition, are one call.
    """
    groups: list[list[Call]] = []
    for call in calls:
        last = groups[-1][-1] if groups else call
        if groups and len(groups[-1]) < TOGETHER and _is_alike(last, call):
            groups[-1].append(call)
        else:
            groups.append([call])
    return [_one(group) for group in groups], [len(group) for group in groups]


def apart(
    calls: Sequence[Call], counts: Sequence[int], replies: list[Any]
) -> list[Any]:
    """The reply to each call that *calls*, with their *replies*, stand for."""
    found: list[Any] = []
    for call, count, reply in zip(calls, counts, replies, strict=True):
        if call.script is None or call.script.parts is None:
            found.append(reply)
        else:
            found += [reply] * count if isinstance(reply, Exception) else reply
    return found


def _is_alike(call: Call, other: Call) -> bool:
    """Whether one call can do what both do."""
    script = call.script
    if script is None or script.parts is None or other.script is not script:
        return False
    first = 3 + script.parts.keys
    last = first + script.parts.shared
    return call.parts[first:last] == other.parts[first:last]


def _one(group: Sequence[Call]) -> Call:
    """The call that does what those of *group* do."""
    first, *others = group
    script = first.script
    if not others or script is None or script.parts is None:
        return first
    own = 3 + script.parts.keys
    after = own + script.parts.shared
    names = [key for call in group for key in call.parts[3:own]]
    args = [arg for call in group for arg in call.parts[after:]]
    whole = ("EVALSHA", script.sha, len(names), *names, *first.parts[own:after], *args)
    return Call(whole, script)


LONGEST_MS = 2000
"""Milliseconds for which a server waits; a disk is written to once a second."""


@dataclass(frozen=True, slots=True)
class Copies:
    """How many copies there have to be of a write."""

    replicas: int = 0
    disk: bool = False
    """Whether the server's append-only file must be on its disk."""

    def _command(self, milliseconds: int) -> _Parts:
        if self.disk:  # all writes are counted then
            return ("WAITAOF", 1, self.replicas, milliseconds)
        return ("WAIT", self.replicas, milliseconds)

    def after(self, commands: Sequence[Sequence[Argument]]) -> list[_Parts]:
        """What is sent behind *commands*, to wait; nothing if no script is in them."""
        if not self or all(parts[0] != "EVALSHA" for parts in commands):
            return []
        waits = [self._command(LONGEST_MS)]
        return waits if self.disk else [*waits, ("INFO", "replication")]

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return self.disk or self.replicas > 0

    def lacking(self, replies: Sequence[Any]) -> str:
        """What is not there, if these are the replies to `after`; or nothing."""
        for reply in replies:
            if isinstance(reply, Exception):
                return str(reply)
        if self.disk:
            ((on_disk, replicas),) = replies
        else:
            on_disk, replicas = 1, min(replies[0], _confirming(replies[1]))
        if not on_disk:
            return "its append-only file is not on disk yet"
        if replicas < self.replicas:
            return f"{replicas} of {self.replicas} replicas have its last writes"
        return ""

    def probe(self) -> Call:
        """A call whose reply tells whether the servers know the command."""
        return Call.command(*self._command(1))

    def refused(self, where: str, reason: str) -> ConfigurationError:
        """What to say if they do not."""
        name = "AOF" if self.disk else "REPLICAS"
        needs = "Redis 7.2 or Valkey 8, with appendonly yes" if self.disk else "Redis"
        return ConfigurationError(
            f"FRONTIER_STORE_WAIT_{name} needs {needs}; the store at {where} says: "
            f"{reason}"
        )


def _confirming(info: Mapping[str, Any]) -> int:
    """How many replicas have confirmed anything, as ``INFO replication`` has it."""
    replicas = [value for name, value in info.items() if name.startswith("slave")]
    return sum(isinstance(one, dict) and one.get("offset", 0) > 0 for one in replicas)
