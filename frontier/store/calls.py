"""What is sent to a store, commands and runs of scripts, and the copies waited for.

A server confirms a write before any other server has it. ``WAIT`` and ``WAITAOF``
return once all that was written before on the same connection is copied, to replicas or
to the server's disk; so one of them goes out after the calls of a round trip, to each
server that runs a script in it.

What always holds:

1.  A run with `Copies` counts as done only when all copies exist. If they are late it
    counts as not answered, and is sent again: only for calls that may happen twice, and
    that write each time (`WAIT` waits for the last write of its connection).
2.  A replica counts only once it has confirmed something. A server without an
    append-only file that never had a replica counts no writes, so `WAIT` on it is
    content with a replica that was sent the data and has not loaded it yet.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from frontier.errors import ConfigurationError
from frontier.model import frozen
from frontier.store.scripts import SCRIPTS, Script

if TYPE_CHECKING:
    from frontier.store.address import Server


Argument = str | bytes | int | float
Command = tuple[Argument, ...]
Condition = tuple[Command, Argument]
"""A command of a `Call.txn`, and the reply that it must have."""
Run = Callable[[Sequence["Call"]], Awaitable[list[Any]]]
"""Sends calls and returns their replies."""


class Later(int):
    """In a `Call.txn`, the server's time this many ms from now, in ms."""


NOW = Later(0)
T = TypeVar("T")


def batches(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """*things* in their order, at most *size* in each batch."""
    return (things[first : first + size] for first in range(0, len(things), size))


def milliseconds(time: Sequence[int]) -> int:
    """The reply to ``TIME`` as milliseconds since the Unix epoch."""
    seconds, micros = time
    return int(seconds) * 1000 + int(micros) // 1000


EVERYWHERE = frozenset(("CONFIG", "INFO", "SCRIPT", "WAIT", "WAITAOF"))
"""Commands that go to all primaries of a cluster, and have a list of replies there."""
ANYWHERE = frozenset(("PING", "TIME", "CLUSTER"))
"""Commands without a key; they go where the call before them goes."""


@frozen
class Call:
    """One command or run of a script, ready to be sent."""

    parts: Command
    script: Script | None = None
    server: Server | None = None
    """The server of a cluster that has to run it, whichever has the slot of a key."""

    @classmethod
    def command(cls, *parts: Argument) -> Call:
        """The command *parts*, its name first; its key, if any, comes next."""
        return cls(parts)

    @classmethod
    def to(
        cls, name: str, keys: Sequence[Argument], args: Sequence[Argument] = ()
    ) -> Call:
        """A run of the script *name* with *keys* and *args*."""
        script = SCRIPTS[name]
        return cls(("EVALSHA", script.sha, len(keys), *keys, *args), script)

    @classmethod
    def txn(cls, when: Sequence[Condition], then: Sequence[Command]) -> Call:
        """A run of the commands *then*, if each of *when* replies as expected.

        If one does not, nothing is done, and the reply is `None`. All keys, the second
        words, are in one slot.
        """
        keys: dict[Argument, int] = {}
        args: list[Argument] = [len(when), ""]
        for command, expected in [*when, *((command, None) for command in then)]:
            name, key, *rest = command
            args += [] if expected is None else [expected]
            args += [name, keys.setdefault(key, len(keys) + 1), len(rest), *rest]
        times = [i for i, one in enumerate(args) if isinstance(one, Later)]
        for i in times:
            args[i] = int(args[i])  # redis-py packs no subclass of int
        args[1] = " ".join(str(i + 1) for i in times)
        return cls.to("txn", [*keys], args)

    @property
    def name(self) -> str:
        """The command's first word, in capitals."""
        return str(self.parts[0]).split(" ", 1)[0].upper()

    @property
    def key(self) -> bytes | None:
        """The key that decides where on a cluster the call goes, if it has one."""
        if self.script is not None:
            key = self.parts[3]
        elif self.name in EVERYWHERE or self.name in ANYWHERE:
            return None
        else:
            key = self.parts[1]
        return key if isinstance(key, bytes) else str(key).encode()


LONGEST_MS = 2000
"""Milliseconds for which a server waits; its disk is written to once a second."""


@frozen
class Copies:
    """How many copies of a write there have to be."""

    replicas: int = 0
    disk: bool = False
    """Whether the server's append-only file must be on its disk."""

    def _command(self, milliseconds: int) -> Command:
        if self.disk:  # all writes are counted then
            return ("WAITAOF", 1, self.replicas, milliseconds)
        return ("WAIT", self.replicas, milliseconds)

    def after(self, commands: Sequence[Sequence[Argument]]) -> list[Command]:
        """What is sent after *commands*, to wait; nothing if they run no script."""
        if not self or all(parts[0] != "EVALSHA" for parts in commands):
            return []
        waits = [self._command(LONGEST_MS)]
        return waits if self.disk else [*waits, ("INFO", "replication")]

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return self.disk or self.replicas > 0

    def lacking(self, replies: Sequence[Any]) -> str:
        """What is missing by these *replies* to `after`; empty if nothing is."""
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
        """A call whose reply tells whether the servers know the waiting command."""
        return Call.command(*self._command(1))

    def refused(self, where: str, reason: str) -> ConfigurationError:
        """The error for servers that refuse it, with a *reason*."""
        name = "AOF" if self.disk else "REPLICAS"
        needs = "Redis 7.2 or Valkey 8, with appendonly yes" if self.disk else "Redis"
        return ConfigurationError(
            f"FRONTIER_STORE_WAIT_{name} needs {needs}; the store at {where} says: "
            f"{reason}"
        )


def _confirming(info: Mapping[str, Any]) -> int:
    """How many replicas have confirmed anything, by ``INFO replication``."""
    replicas = [value for name, value in info.items() if name.startswith("slave")]
    return sum(isinstance(one, dict) and one.get("offset", 0) > 0 for one in replicas)
