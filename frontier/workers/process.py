"""A worker process: does one job after another, from its standard input.

What always holds:

1.  It imports neither Scrapy nor Twisted nor anything that speaks to the store. Of the
    node's environment it has only what Python needs to start; of the node's open files,
    only the two pipes to the node and standard error.
2.  It does only the jobs that `JOBS` names.
3.  A job stays within its limit of CPU time, and the process within its limit of
    memory: the kernel enforces both, whatever the interpreter is doing.
4.  It does not outlive the node: it ends with the pipe, or the thread that started it;
    a job that is running ends at its limit at the latest.
5.  A signal that ends nodes does not end it, so that the node lets what is in flight
    finish: a terminal does not reach its session, and it ignores what a service manager
    sends to all processes.

It is run as a file, by its path: ``python process.py ROOT BYTES PARENT``. A message is
its length in four bytes, followed by that much JSON. A job begins with ``{"job": name,
"seconds": limit, "size": bytes, "arguments": {...}}``, followed by *size* bytes of
content, and is answered with any number of ``{"part": ...}`` and one ``{"done": true}``
or ``{"failed": reason}``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping
from typing import IO, Any

JOBS = {
    "feed": "frontier.feeds.parse:feed_job",
    "links": "frontier.urls.links:links_job",
    "robots": "frontier.urls.robots:robots_job",
    "sitemap": "frontier.urls.sitemaps:sitemap_job",
}
"""Module and function by job name: the function takes content and arguments, and yields
parts that JSON can hold."""
LENGTH = struct.Struct(">I")
MOST = 16_000_000
"""The most bytes of one message."""
PR_SET_PDEATHSIG = 1
"""From prctl(2)."""
NO_MEMORY = 3
"""Exit code of a worker that does not have enough memory for its job."""


def main() -> None:
    """Do jobs until the pipe ends."""
    root, most_bytes, parent = sys.argv[1:]
    _keep_to_itself(int(most_bytes), int(parent))
    if root not in sys.path:
        sys.path.append(root)
    source = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    while head := source.read(LENGTH.size):
        request = json.loads(source.read(*LENGTH.unpack(head)))
        content = source.read(request["size"])
        if len(content) < request["size"]:
            return
        _do(answers, request, content)


def _keep_to_itself(most_bytes: int, parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the node died before that
        sys.exit(0)
    with contextlib.suppress(ValueError, OSError):  # a hard limit may be lower
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _do(answers: IO[bytes], request: Mapping[str, Any], content: bytes) -> None:
    module, _, function = JOBS[request["job"]].partition(":")
    signal.setitimer(signal.ITIMER_PROF, request["seconds"])  # the kernel kills it
    try:
        job = getattr(importlib.import_module(module), function)
        for part in job(content, request["arguments"]):
            _send(answers, {"part": part})
        answer: dict[str, Any] = {"done": True}
    except MemoryError:
        answer = {"failed": "it needs more memory than a worker has"}
    except Exception as error:  # noqa: BLE001 (whatever it is, the node is told)
        answer = {"failed": f"{type(error).__name__}: {error}"[:500]}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    _send(answers, answer)


def _send(answers: IO[bytes], message: dict[str, Any]) -> None:
    text = json.dumps(message).encode()
    if len(text) > MOST:
        raise ValueError(f"a part of its result has {len(text):,} bytes")
    answers.write(LENGTH.pack(len(text)) + text)
    answers.flush()


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        sys.exit(NO_MEMORY)
    except BrokenPipeError:  # the node is gone
        os._exit(0)
