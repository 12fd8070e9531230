"""What is sent to a store: commands and runs of scripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.store.scripts import Script

Argument = str | bytes | int | float

EVERYWHERE = frozenset(("CONFIG", "INFO", "KEYS", "SCRIPT", "WAIT", "WAITAOF"))
"""Commands that go to all primaries of a cluster."""
ANYWHERE = frozenset(("PING", "TIME", "CLUSTER"))
"""Commands without a key; they go where the call before them goes."""
SECOND = frozenset(("MEMORY", "OBJECT"))
"""Commands that have a word before their key."""


@dataclass(frozen=True, slots=True)
class Call:
    """One command or script, ready to be sent."""

    parts: tuple[Argument, ...]
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
