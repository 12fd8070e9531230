"""Signals that end a node, and must not end the processes that it has started.

A terminal and a service manager send them to all processes. What the node has started
ends with it: it finishes what is in flight first.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def kept_from_children() -> Iterator[None]:
    """Begin processes that never see these signals, from their first moment on.

    They have to ignore them, too: uvloop unblocks all signals of what it starts.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:  # not what it was before: another task may begin one meanwhile
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
