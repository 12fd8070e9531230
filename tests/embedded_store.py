"""What runs in the directory of an embedded store, without joining it."""

from pathlib import Path
from typing import Any, NamedTuple

from frontier.store import embedded


class Status(NamedTuple):
    running: bool
    pid: int | None = None
    socket: Path | None = None


def server_in(directory):
    """The server that answers in *directory*, if one does; nothing is started."""
    socket = embedded._ServerFiles.of(directory).socket
    facts: dict[str, Any] | None = embedded._facts(socket)
    return Status(True, facts["process_id"], socket) if facts else Status(False)
