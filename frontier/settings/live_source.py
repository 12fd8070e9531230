"""What people write in a file or a database, and may change while a crawl runs.

What always holds:

1.  `Live.value` is what the source said when it was last read without a fault.
2.  A source that cannot be read changes nothing. Its fault is logged once, and again
    when it has another; it is logged, too, when the source can be read again.

`Live.refresh` may wait for a disk or a database: it runs in the thread that
`Live.start` makes, which keeps no process from ending.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from frontier.errors import InputBroken
from frontier.settings.toml_tables import read_bytes

logger = logging.getLogger(__name__)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SETTLE_S = 0.05
"""Seconds between two looks at a file that changes: somebody may still be writing."""
MAX_NOTES = 20
"""Notes that are logged at once; the others are counted."""
SLOW = 10.0
"""Seconds after which a reading is logged as not answered yet."""
KEPT = "the crawl goes on with what it has read before"


class Source(Protocol[T_co]):
    """A file or a database."""

    where: str
    """What it is called in messages; without a password."""
    notes: tuple[str, ...]
    """What the last reading left out, and why."""

    def read(self) -> T_co:
        """What it says; may block, so it is called in a thread, one call at a time.

        Raises:
            InputBroken: It cannot be read, or what it says is not valid.
        """
        ...


class File(Generic[T]):
    """What *parse* makes of the file *path*, of at most *most* bytes."""

    notes: tuple[str, ...] = ()
    """Nothing is left out of a file: what is wrong in it is an error."""

    def __init__(self, path: Path, most: int, parse: Callable[[bytes], T]) -> None:
        self._given = (path, most)
        self._parse = parse
        self.where = str(path)
        self._known: tuple[bytes, T] | None = None

    def read(self) -> T:
        """What the file says; it is parsed only if it has changed.

        Raises:
            InputBroken: It cannot be read, or something in it is not valid.
        """
        data = read_bytes(*self._given)
        while self._known is None or data != self._known[0]:
            time.sleep(SETTLE_S)
            before, data = data, read_bytes(*self._given)
            if data == before:
                self._known = data, self._parse(data)
        return self._known[1]


class Live(Generic[T]):
    """The last good state of *source*, read again every *refresh_s* seconds."""

    def __init__(self, source: Source[T], refresh_s: float) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self.value: T | None = None
        """``None`` before the first good reading. A change replaces the whole value."""
        self.fault = ""
        """What is wrong with the source now; empty if it could be read."""
        self._notes: frozenset[str] = frozenset()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Read now and then every *refresh_s* seconds, in a thread, until `stop`."""
        threading.Thread(target=self._run, name="frontier-live", daemon=True).start()

    def stop(self) -> None:
        """Read no more; a reading that has begun goes on, and nothing waits for it."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.refresh()
            self._stopped.wait(self._refresh_s)

    def load(self) -> T:
        """Read the source once, and return what it says; raises what that raises."""
        found = self._source.read()
        before, self.value = self.value, found
        if before is not None and before != found:
            logger.info("%s has changed, and is in effect", self._source.where)
        return found

    def refresh(self) -> None:
        """Read the source once. If it has a fault, that is in `fault`, and logged."""
        fault = ""
        slow = threading.Timer(SLOW, self._say_slow)
        slow.daemon = True
        slow.start()
        try:
            self.load()
        except InputBroken as error:
            fault = str(error)
        except Exception as error:
            logger.exception("%s cannot be read", self._source.where)
            fault = repr(error)
        finally:
            slow.cancel()
        if fault and fault != self.fault:
            logger.error("%s; %s", fault, KEPT)
        elif self.fault and not fault:
            logger.warning("%s can be read again", self._source.where)
        notes = frozenset(self._source.notes)
        new = sorted(notes - self._notes)
        for note in new[:MAX_NOTES]:
            logger.warning("%s: %s", self._source.where, note)
        if len(new) > MAX_NOTES:
            more = len(new) - MAX_NOTES
            logger.warning("%s: %d more faults", self._source.where, more)
        self.fault, self._notes = fault, notes

    def _say_slow(self) -> None:
        logger.warning(
            "%s has not answered for %g s; %s, and takes no change until it answers",
            self._source.where,
            SLOW,
            KEPT,
        )
