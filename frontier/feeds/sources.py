"""Which file or database has the sites of a crawl."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frontier.feeds.model import Sites

VARIABLE = "FRONTIER_FEEDS"
"""The setting, and the variable of the environment to take it from if it is empty."""
FILE = "feeds.toml"
"""What is read if nothing is named."""
SQLITE = (".db", ".sqlite", ".sqlite3")
"""The suffixes of files that are databases."""
_RELATIVE = re.compile(r"(sqlite(?:\+\w+)?://)/([^/:].*)")
"""The URL of an SQLite database with a relative path, in two parts."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+_]*://")


def source_of(given: str) -> Sites:
    """The configuration that *given* names: a file, or an SQL database by its URL.

    If it is empty: what the environment's variable ``FRONTIER_FEEDS`` names, else
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
    from frontier.feeds.feeds_toml import toml_sites

    return toml_sites(Path(given))


def is_database(given: str) -> bool:
    """Whether *given* names a database instead of a file of sites."""
    return bool(_URL.match(given)) or given.endswith(SQLITE)


def absolute(given: str) -> str:
    """*given* with its path made absolute, for a process in another directory."""
    if found := _RELATIVE.match(given):
        return f"{found[1]}/{Path(found[2]).absolute()}"
    return given if _URL.match(given) else str(Path(given).absolute())
