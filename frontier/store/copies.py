"""Waiting until what was written is on replicas, or on the server's disk.

A server confirms a write before any other has it. ``WAIT`` and ``WAITAOF`` return once
all that was written on the same connection before is copied; so one of them goes out
behind the calls of a round trip, to each server that gets a script of it.

What always holds:

1.  What `Copies` is given to counts as done only when all copies are there. If they are
    late that is no answer, and it is sent again: only for calls that may happen twice,
    and that write each time (`WAIT` waits for the last write of its connection).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.store.calls import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.store.calls import Argument

LONGEST_MS = 2000
"""Milliseconds for which a server waits; a disk is written to once a second."""


@dataclass(frozen=True, slots=True)
class Copies:
    """How many copies there have to be of a write."""

    replicas: int = 0
    disk: bool = False
    """Whether the server's append-only file must be on its disk."""

    def command(self, milliseconds: int = LONGEST_MS) -> tuple[Argument, ...]:
        """What waits for them."""
        if self.disk:
            return ("WAITAOF", 1, self.replicas, milliseconds)
        return ("WAIT", self.replicas, milliseconds)

    def after(self, commands: Sequence[Sequence[Argument]]) -> bool:
        """Whether there is something to wait for behind *commands*."""
        return bool(self) and any(parts[0] == "EVALSHA" for parts in commands)

    def __bool__(self) -> bool:
        """Whether anything is waited for."""
        return self.disk or self.replicas > 0

    def lacking(self, reply: Any) -> str:
        """What is not there, if the server replied that to `command`; or nothing."""
        if isinstance(reply, Exception):
            return str(reply)
        on_disk, replicas = reply if self.disk else (1, reply)
        if not on_disk:
            return "its append-only file is not on disk yet"
        if replicas < self.replicas:
            return f"{replicas} of {self.replicas} replicas have its last writes"
        return ""

    def probe(self) -> Call:
        """A call whose reply tells whether the servers know the command."""
        return Call.command(*self.command(1))

    def refused(self, where: str, reason: str) -> ConfigurationError:
        """What to say if they do not."""
        name = "AOF" if self.disk else "REPLICAS"
        needs = "Redis 7.2 or Valkey 8, with appendonly yes" if self.disk else "Redis"
        return ConfigurationError(
            f"FRONTIER_STORE_WAIT_{name} needs {needs}; the store at {where} says: "
            f"{reason}"
        )
