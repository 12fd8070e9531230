"""The sites of a configuration that changes while a crawl runs.

What always holds:

1.  `LiveSites.sites` is what the source said when it was last read without a fault.
2.  A source that cannot be read changes nothing. What is wrong with it is logged once,
    and logged again when it is something else; so is that it can be read again.

`LiveSites.refresh` may wait for a disk or a database: it runs in the thread that
`LiveSites.start` makes, which keeps no process from ending.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from frontier.errors import InputBroken

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.feeds.model import Site, Sites

logger = logging.getLogger(__name__)

VARIABLE = "FRONTIER_FEEDS"
"""The setting, and the variable of the environment that it is taken from if empty."""
FILE = "feeds.toml"
"""What is read if nothing is named."""
SQLITE = (".db", ".sqlite", ".sqlite3")
"""How a file is called that is a database."""
MAX_NOTES = 20
"""Faults of rows that are logged at once; the others are counted."""
SLOW = 10.0
"""Seconds of a reading after which it is said that the source does not answer."""
_RELATIVE = re.compile(r"(sqlite(?:\+\w+)?://)/([^/:].*)")
"""The URL of an SQLite database with a relative path, in two parts."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+_]*://")


def source_of(given: str) -> Sites:
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


class LiveSites:
    """The last good state of *source*, read again every *refresh_s* seconds."""

    def __init__(self, source: Sites, refresh_s: float) -> None:
        self._source = source
        self._refresh_s = refresh_s
        self.sites: Mapping[str, Site] | None = None
        """By name; ``None`` before the first good reading. A change makes another."""
        self.fault = ""
        """What is wrong with the source now; empty if it could be read."""
        self._notes: frozenset[str] = frozenset()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Read now and then every *refresh_s* seconds, in a thread, until `stop`."""
        name = "frontier-feeds-config"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Read no more; a reading that has begun goes on, and keeps nothing waiting."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.refresh()
            self._stopped.wait(self._refresh_s)

    def refresh(self) -> None:
        """Read the source once. What is wrong with it is `fault`, and logged."""
        fault = ""
        slow = threading.Timer(SLOW, self._say_slow)
        slow.daemon = True
        slow.start()
        try:
            self.sites = self._source.read()
        except InputBroken as error:
            fault = str(error)
        except Exception as error:
            logger.exception("the sites of %s cannot be read", self._source.where)
            fault = repr(error)
        finally:
            slow.cancel()
        if fault and fault != self.fault:
            logger.error("%s; the crawl goes on with the sites that it has", fault)
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
            "%s has not answered for %g s; the crawl goes on with the sites that it "
            "has, and takes no change until it answers",
            self._source.where,
            SLOW,
        )
