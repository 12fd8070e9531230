r"""``feeds.toml``: sites and their feeds in a file that people write.

::

    [[site]]
    name = "Example News"
    wait = "1h30m"              # between two rounds; 1h if it is not given
    wait_max = "1d"             # adaptive: up to this; without it the wait is fixed
    paused = false
    feeds = [
      "https://news.example/rss",
      { url = "https://news.example/sport.xml", implied = ["https://news.example/"] },
    ]

What always holds:

1.  A key that is not known is a fault, with file, line and the name that is near.
2.  `TomlSites.edit` changes what it has to and keeps all else, comments too. What it
    writes has been read again before: it says what was wanted, or nothing is written.
3.  The file is replaced in one step, with the mode and owner that it had. Two commands
    that edit it at once wait for each other.
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import time
import tomllib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from frontier.errors import FeedConfigError
from frontier.feeds.model import (
    DEFAULT_WAIT,
    MAX_SITES,
    Feed,
    Site,
    feed_of,
    parse_wait,
    site_name,
    site_of,
    with_feeds,
)
from frontier.feeds.toml_edits import HEADER, MAX_LINE, edited
from frontier.files import (
    creating,
    is_at,
    mode_of_environment,
    read_input,
    sync_directory,
)
from frontier.settings.values import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

MAX_BYTES = 64 << 20
SETTLE_S = 0.05
"""Between two looks at a file that has changed: somebody may still be writing."""
LOOKS = 20
_SITE_KEYS = ("name", "wait", "wait_max", "paused", "ended", "feeds")
_FEED_KEYS = ("url", "implied")
_DEEP = re.compile(
    r"""[ \t]*+\[*+[ \t]*+(?:[\w-]++|"[^"]*+"|'[^']*+')[ \t]*+\.[^=.]*+\.""",
)
"""A key of three parts or more: nothing here has one, and reading it takes the square
of its length."""


class TomlSites:
    """The sites of the file *path*.

    Used by one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = str(path)
        self._data: bytes | None = None
        self._sites: Mapping[str, Site] = {}

    def read(self) -> Mapping[str, Site]:
        """The sites by name; the file is parsed only if it has changed.

        Raises:
            FeedConfigError: It cannot be read, or something in it cannot be.
        """
        data = self._settled()
        if data != self._data:
            self._sites = sites_in(self.where, data)
            self._data = data
        return self._sites

    def _settled(self) -> bytes:
        """The file's bytes: if they are not the known ones, the same at two looks."""
        data = self._bytes()
        for _ in range(LOOKS):
            if data == self._data:
                break
            time.sleep(SETTLE_S)
            before, data = data, self._bytes()
            if data == before:
                break
        return data

    def _bytes(self) -> bytes:
        try:
            return read_input(self._path, MAX_BYTES)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise FeedConfigError(self.where, f"cannot be read: {reason}") from None

    def edit(
        self, change: Callable[[Mapping[str, Site]], Mapping[str, Site | None]]
    ) -> tuple[str, ...]:
        """Have the file say what *change* makes of its sites.

        *change* gets them by name, and returns those that are to be as it says; `None`
        for one that is to go. A file that is not there is made. Returns nothing that
        could not be said.

        Raises:
            FeedConfigError: The file is wrong as it is, or cannot be edited.
            OSError: It cannot be written.
        """
        with _locked(self._path) as path:
            data = read_input(path, MAX_BYTES) if path.exists() else b""
            before = sites_in(self.where, data)
            wanted = {
                name: site
                for name, site in change(before).items()
                if site != before.get(name)
            }
            if not wanted:
                return ()
            text = data.decode("utf-8")
            bom = "\ufeff" * text.startswith("\ufeff")
            made = bom + edited(text.removeprefix(bom), before, wanted)
            expected = {**before, **wanted}
            written = made.encode("utf-8")
            said = sites_in(self.where, written)
            if said != {name: site for name, site in expected.items() if site}:
                raise FeedConfigError(
                    self.where, "is written in a way that this command cannot edit"
                )
            _replace(path, written)
        return ()


def sites_in(where: str, data: bytes) -> dict[str, Site]:
    """The sites that the file *where* says, whose bytes are *data*.

    Raises:
        FeedConfigError: Something in it cannot be.
    """
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
        for number, line in enumerate(text.split("\n"), 1):
            if len(line) > MAX_LINE:
                reason = f"has a line of more than {MAX_LINE:,} characters"
                raise FeedConfigError(where, reason, number)
            if "." in line and _DEEP.match(line):
                raise FeedConfigError(where, "has a key of three parts", number)
        given = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line_number = data[: error.start].count(b"\n") + 1
        raise FeedConfigError(where, "is not UTF-8", line_number) from None
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        line_number = int(found[1]) if found else text.count("\n") + 1
        raise FeedConfigError(where, f"is not TOML: {error}", line_number) from None
    except (ValueError, RecursionError) as error:  # a huge number, or a deep array
        raise FeedConfigError(where, f"is not TOML: {str(error)[:200]}") from None
    return _Reader(where, text).sites(given)


class _Reader:
    """Makes sites of what a file says, and finds the line where it says wrong."""

    def __init__(self, where: str, text: str) -> None:
        self._where, self._text = where, text

    def sites(self, given: Mapping[str, Any]) -> dict[str, Site]:
        for key in given:
            if key != "site":
                self._fail(None, key, _unknown(key, ("site",), "a file"))
        tables = given.get("site", [])
        if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
            self._fail(None, "site", "write each site as [[site]]")
        if len(tables) > MAX_SITES:
            self._fail(None, "site", f"there are more than {MAX_SITES:,} sites")
        made: dict[str, Site] = {}
        places: dict[str, int] = {}
        feeds: dict[str, int] = {}
        for number, table in enumerate(tables):
            site = self._site(number, table)
            if site.name in made:
                first = self._line(places[site.name], "name")
                reason = f"there is a site {site.name!r} in line {first} already"
                self._fail(number, "name", reason)
            for feed in site.feeds:
                owner = feeds.setdefault(feed.url, number)
                if owner != number:
                    first = self._line(owner, feed.url)
                    reason = f"the feed {feed.url} is in line {first} already"
                    self._fail(number, feed.url, reason)
            made[site.name], places[site.name] = site, number
        return made

    def _site(self, number: int, table: Mapping[str, Any]) -> Site:
        for key in table:
            if key not in _SITE_KEYS:
                self._fail(number, key, _unknown(key, _SITE_KEYS, "a site"))
        if "name" not in table:
            self._fail(number, "", "a site needs a name")
        for key in ("paused", "ended"):
            if not isinstance(table.get(key, False), bool):
                self._fail(number, key, f"{key} is true or false")
        with self._at(number, "name"):
            site_name(table["name"])
        for key in ("wait", "wait_max"):
            with self._at(number, key):
                parse_wait(table.get(key, DEFAULT_WAIT))
        entries = table.get("feeds", [])
        if not isinstance(entries, list):
            self._fail(number, "feeds", "feeds are a list of URLs or of tables")
        feeds = [self._feed(number, entry) for entry in entries]
        with self._at(number, "wait_max" if "wait_max" in table else "feeds"):
            site = site_of(
                table["name"],
                (),
                table.get("wait", DEFAULT_WAIT),
                table.get("wait_max"),
                paused=table.get("paused", False),
                ended=table.get("ended", False),
            )
        with self._at(number, "feeds"):
            return with_feeds(site, feeds)

    def _feed(self, number: int, entry: object) -> Feed:
        given = {"url": entry} if isinstance(entry, str) else entry
        if not isinstance(given, dict):
            self._fail(number, "feeds", "a feed is a URL, or a table with a url")
        for key in given:
            if key not in _FEED_KEYS:
                self._fail(number, key, _unknown(key, _FEED_KEYS, "a feed"))
        url, implied = given.get("url"), given.get("implied", [])
        if not isinstance(implied, list):
            self._fail(number, "implied", "implied is a list of URLs")
        with self._at(number, str(url or "feeds")):
            return feed_of(url, implied)

    @contextmanager
    def _at(self, number: int, key: str) -> Iterator[None]:
        """What is refused in here is about the line that has *key*."""
        try:
            yield
        except ValueError as error:
            self._fail(number, key, str(error))

    def _fail(self, number: int | None, key: str, reason: str) -> NoReturn:
        raise FeedConfigError(self._where, reason, self._line(number, key))

    def _line(self, number: int | None, key: str) -> int:
        """Where *key* stands, as a key or as a value, in the table *number*."""
        lines = self._text.split("\n")
        starts = [at for at, line in enumerate(lines) if HEADER.match(line)]
        first, end = 0, len(lines)
        if number is not None and number < len(starts):
            first = starts[number]
            end = starts[number + 1] if number + 1 < len(starts) else end
        elif number is not None:
            return 0
        as_key = re.compile(rf"""(^|[\s,{{\["'])({re.escape(key)})["']?\s*=""")
        for at in range(first, end):
            if key and as_key.search(lines[at].partition("#")[0]):
                return at + 1
        for at in range(first, end):
            if len(key) > 5 and key in lines[at]:
                return at + 1
        return first + 1


def _unknown(key: str, known: tuple[str, ...], of: str) -> str:
    near = nearest(key, known)
    hint = f"; did you mean {near!r}?" if near else f": it has {', '.join(known)}"
    return f"{of} has no {key[:100]!r}{hint}"


@contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """Hold a lock on the file *path* and yield where it is, links resolved."""
    real = Path(os.path.realpath(path))
    while True:
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = creating(mode_of_environment())(str(real), flags)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if is_at(real, descriptor):
                yield real
                return
        finally:
            os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    """Have *path* be a file with *data*, in one step, as whoever had it."""
    was = path.stat()
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), was.st_mode & 0o7777)
            with suppress(OSError):  # only root may give files away
                os.fchown(file.fileno(), was.st_uid, was.st_gid)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
