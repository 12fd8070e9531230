"""A worker process: one job after the other, from a socket.

What always holds:

1.  It imports neither Scrapy nor Twisted nor anything that speaks to the store, has
    none of the node's environment but what Python needs to start, and no open file
    of the node's but its end of the socket.
2.  It does what `JOBS` names and nothing else.
3.  A job ends within its limit of CPU time, and the process within its limit
    of memory: the kernel sees to both, whatever the interpreter is doing.
4.  It does not outlive the node: it ends with the socket, on Linux with the thread
    that started it, and a job, at the latest, at its limit.
5.  What a terminal or a service manager sends to all processes does not end it: the
    node lets what is in flight finish.

It is run as a file, by its path: ``python process.py FD ROOT BYTES PARENT``. A message
is its length in four bytes and as much JSON. A job begins with ``{"job": name,
"seconds": limit, "size": bytes, "arguments": {...}}``, after which come as many bytes
of content, and is answered with any number of ``{"part": ...}`` and one ``{"done":
true}`` or ``{"failed": reason}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Job = Callable[[bytes, Mapping[str, Any]], Iterator[Any]]

JOBS = {
    "links": "frontier.urls.links:links_job",
    "robots": "frontier.urls.robots:robots_job",
    "sitemap": "frontier.urls.sitemaps:sitemap_job",
}
"""Name to module and function: it is given content and arguments, and yields parts,
each of which is data that JSON has."""
LENGTH = struct.Struct(">I")
MOST = 16_000_000
"""Bytes of one message."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2)."""
NO_MEMORY = 3
"""Exit code of a worker whose memory does not suffice for what it is given."""


def main() -> None:
    """Do jobs until the socket ends."""
    descriptor, root, most_bytes, parent = sys.argv[1:]
    _keep_to_itself(int(most_bytes), int(parent))
    if root not in sys.path:
        sys.path.append(root)
    with socket.socket(fileno=int(descriptor)) as link:
        while (head := _read(link, LENGTH.size)) is not None:
            request = json.loads(_whole(link, LENGTH.unpack(head)[0]))
            content = _whole(link, request["size"])
            _do(link, request, content)


def _keep_to_itself(most_bytes: int, parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before that
            sys.exit(0)
    with contextlib.suppress(ValueError, OSError):  # not every system has it
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _do(link: socket.socket, request: Mapping[str, Any], content: bytes) -> None:
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])  # the kernel kills it
    try:
        for part in _job(request["job"])(content, request["arguments"]):
            _send(link, {"part": part})
        answer: dict[str, Any] = {"done": True}
    except MemoryError:
        answer = {"failed": "it needs more memory than a worker has"}
    except Exception as error:  # noqa: BLE001 (whatever it is, the node is told)
        answer = {"failed": f"{type(error).__name__}: {error}"[:500]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    _send(link, answer)


def _job(name: str) -> Job:
    module, _, function = JOBS[name].partition(":")
    found: Job = getattr(importlib.import_module(module), function)
    return found


def _send(link: socket.socket, message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    if len(text) > MOST:
        raise ValueError(f"a part of its result has {len(text):,} bytes")
    link.sendall(LENGTH.pack(len(text)) + text)


def _read(link: socket.socket, size: int) -> bytearray | None:
    """*size* bytes, or ``None`` if the other side is gone."""
    found = bytearray(size)
    view = memoryview(found)
    while view:
        with contextlib.suppress(InterruptedError):
            try:
                count = link.recv_into(view)
            except ConnectionError:
                count = 0
            if not count:
                return None
            view = view[count:]
    return found


def _whole(link: socket.socket, size: int) -> bytes:
    found = _read(link, size)
    if found is None:
        sys.exit(0)
    return bytes(found)


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        sys.exit(NO_MEMORY)
