"""The server's log: one JSON object per request, in the order of their ends."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Entry:
    """One request that was served, or that its client gave up."""

    start: float
    """When its head and body had arrived; seconds since the Unix epoch."""
    end: float
    """When the kernel had taken the answer, or the client was seen to be gone."""
    host: str
    """``address:port`` of the socket it arrived at, whatever it calls the host."""
    url: str
    method: str
    status: int
    """Of the answer; of the one it would have got if it is *aborted*."""
    bytes: int
    """Length of the entity body with its content coding; 0 if *aborted*."""
    node: str | None
    """The request's ``X-Frontier-Node``."""
    ua: str | None
    """The request's ``User-Agent``."""
    aborted: bool = False
    """Whether the client, or the server's end, came before the answer's end."""

    @classmethod
    def from_line(cls, line: str) -> Entry:
        """The entry that *line* says."""
        return cls(**json.loads(line))

    def to_line(self) -> str:
        """The entry as JSON, ended by a newline; *aborted* only if it is true."""
        facts = asdict(self)
        if not self.aborted:
            del facts["aborted"]
        return json.dumps(facts) + "\n"


class LogWriter:
    """Appends entries to a file, each with a single write; or to nowhere."""

    def __init__(self, path: Path | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor = None if path is None else os.open(path, flags, 0o644)

    def write(self, entry: Entry) -> None:
        """Append *entry*; readers of the file see it when this returns."""
        if self._descriptor is not None:
            os.write(self._descriptor, entry.to_line().encode())

    def close(self) -> None:
        """Close the file; has no effect if it is closed."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
