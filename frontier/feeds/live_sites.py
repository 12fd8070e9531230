"""The sites of a configuration that changes while a crawl runs.

What always holds:

1.  `LiveSites.sites` is what the source said when it was last read without a fault.
2.  A source that cannot be read changes nothing. What is wrong with it is logged once,
    and logged again when it is something else; so is that it can be read again.
3.  A change is told once, to whoever called `LiveSites.refresh`, or to the callback of
    `LiveSites.start`, and only after `sites` has it.

`LiveSites.refresh` may wait for a disk or a database: it runs in the thread that
`LiveSites.start` makes, or in one of the caller's, one at a time. That thread keeps no
process from ending.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.errors import FeedConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import datetime
    from typing import Protocol

    from frontier.feeds.model import FeedState, Site, Sites

    class EditableSites(Sites, Protocol):
        """A configuration that commands can change."""

        def edit(
            self, change: Callable[[Mapping[str, Site]], Mapping[str, Site | None]]
        ) -> tuple[str, ...]:
            """Have it say what *change* makes of its sites; `None`: the site goes.

            Returns what could not be said as it was asked for.
            """
            ...


logger = logging.getLogger(__name__)

VARIABLE = "FRONTIER_FEEDS"
"""The setting, and the variable of the environment that it is taken from if empty."""
FILE = "feeds.toml"
"""What is read if nothing is named."""
SQLITE = (".db", ".sqlite", ".sqlite3")
"""How a file is called that is a database."""
MAX_NOTES = 20
"""Faults of rows that are logged at once; the others are counted."""
_RELATIVE = re.compile(r"(sqlite(?:\+\w+)?://)/([^/:].*)")
"""The URL of an SQLite database with a relative path, in two parts."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+_]*://")


def source_of(given: str) -> EditableSites:
    """The configuration that *given* names: a file, or an SQL database by its URL.

    Empty: that which the variable ``FRONTIER_FEEDS`` of the environment names, else
    `FILE`. Nothing is opened yet.

    Raises:
        ConfigurationError: It is not a URL of a database, or a package is missing.
    """
    given = given or os.environ.get(VARIABLE, "").strip() or FILE
    if is_database(given):
        if not _URL.match(given):
            given = f"sqlite:///{given}"
        from frontier.feeds.feeds_sql import SqlSites

        return SqlSites(given)
    from frontier.feeds.feeds_toml import TomlSites

    return TomlSites(Path(given))


def is_database(given: str) -> bool:
    """Whether *given* names a database, and not a file of sites."""
    return bool(_URL.match(given)) or given.endswith(SQLITE)


def absolute(given: str) -> str:
    """What *given* names, for a process in another directory."""
    if found := _RELATIVE.match(given):
        return f"{found[1]}/{Path(found[2]).absolute()}"
    return given if _URL.match(given) else str(Path(given).absolute())


@dataclass(frozen=True, slots=True)
class Changes:
    """What one look at the configuration has found; names of sites."""

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    """Their feeds, waits or states are others."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @override
    def __str__(self) -> str:
        parts = []
        for what, names in (
            ("new", self.added),
            ("removed", self.removed),
            ("changed", self.changed),
        ):
            if names:
                some = ", ".join(sorted(names)[:5])
                more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
                parts.append(f"{what}: {some}{more}")
        return "; ".join(parts) or "nothing"


class LiveSites:
    """The last good state of *source*, read again every *refresh_s* seconds."""

    def __init__(self, source: Sites, refresh_s: float) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self._sites: Mapping[str, Site] | None = None
        self._fault = ""
        self._notes: frozenset[str] = frozenset()
        self._reading = threading.Lock()
        self._began = 0.0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def sites(self) -> Mapping[str, Site]:
        """By name; empty before the first good reading. A change makes another one."""
        return self._sites or {}

    @property
    def was_read(self) -> bool:
        """Whether there was a good reading."""
        return self._sites is not None

    @property
    def takes_s(self) -> float:
        """Seconds for which a reading has taken; 0 if there is none now."""
        began = self._began
        return time.monotonic() - began if began else 0.0

    @property
    def where(self) -> str:
        """What the source is called in messages."""
        return self._source.where

    @property
    def records(self) -> bool:
        """Whether the source wants to know what is found in feeds."""
        return hasattr(self._source, "record")

    @property
    def fault(self) -> str:
        """What is wrong with the source now; empty if it could be read."""
        return self._fault

    def refresh(self) -> Changes:
        """Read the source once; what differs from the last good reading.

        Raises:
            FeedConfigError: It cannot be read, and has not been read before: there is
                nothing to go on with.
        """
        with self._reading:
            before = self._sites
            self._began = time.monotonic()
            try:
                now = self._source.read()
            except FeedConfigError as error:
                self._note_fault(error)
                if before is None:
                    raise
                return Changes()
            finally:
                self._began = 0.0
            self._note_recovery(now)
            self._note_rows()
            self._sites = now
            changes = _compared(before or {}, now)
            if changes and before is not None:
                logger.info("The sites of %s changed: %s", self._source.where, changes)
            return changes

    def start(self, tell: Callable[[Changes], None]) -> None:
        """Read now and then every *refresh_s* seconds, in a thread, until `stop`.

        *tell* is called in that thread, with each change. An error that it raises is
        logged, and ends nothing.
        """
        self._thread = threading.Thread(
            target=self._run, args=(tell,), name="frontier-feeds-config", daemon=True
        )
        self._thread.start()

    def stop(self, wait_s: float = 5.0) -> None:
        """Read no more; wait up to *wait_s* seconds for a reading that has begun."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run(self, tell: Callable[[Changes], None]) -> None:
        while not self._stopped.is_set():
            try:
                changes = self.refresh()
                if changes:
                    tell(changes)
            except FeedConfigError:
                pass  # `fault` has it, and there is nothing yet to go on with
            except Exception:
                logger.exception("The sites of %s were not taken", self._source.where)
            self._stopped.wait(self._refresh_s)

    def _note_fault(self, error: FeedConfigError) -> None:
        if _stable(str(error)) == _stable(self._fault):
            return
        self._fault = str(error)
        if self._sites is not None:
            logger.error(
                "%s; the crawl goes on with the %d sites that it has",
                error,
                len(self._sites),
            )

    def _note_recovery(self, now: Mapping[str, Site]) -> None:
        if self._fault:
            self._fault = ""
            logger.warning(
                "%s can be read again: %d sites", self._source.where, len(now)
            )

    def _note_rows(self) -> None:
        """Log what the source had to leave out, each once as long as it is so."""
        notes: Iterable[str] = getattr(self._source, "notes", ())
        found = frozenset(notes)
        new = sorted(found - self._notes)
        for note in new[:MAX_NOTES]:
            logger.warning("%s: %s", self._source.where, note)
        if len(new) > MAX_NOTES:
            more = len(new) - MAX_NOTES
            logger.warning("%s: %d more faults", self._source.where, more)
        self._notes = found

    def record(
        self, site: str, last_update: datetime, states: Iterable[FeedState]
    ) -> None:
        """Tell the source what was found in a round; only if `records`. May block.

        A database that cannot take it is logged once; nothing is lost, since the state
        of a crawl is in the store.
        """
        source: Any = self._source
        source.record(site, last_update, states)


def _stable(message: str) -> str:
    """*message* without what is another each time: numbers, and why it is not reached.

    A server that stops or starts gives one reason after the other.
    """
    return re.sub(r"\d+", "", message.partition("connection failed: ")[0])


def _compared(before: Mapping[str, Site], now: Mapping[str, Site]) -> Changes:
    if before is now:
        return Changes()
    return Changes(
        added=frozenset(now.keys() - before.keys()),
        removed=frozenset(before.keys() - now.keys()),
        changed=frozenset(
            name for name, site in now.items() if before.get(name, site) != site
        ),
    )
