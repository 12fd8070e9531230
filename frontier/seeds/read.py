"""Seeds: a URL, several, or a file with one on each line; or JSON objects with one.

What is read is data, of the types that a request takes. An unknown name is a fault, so
that a typo does not pass silently.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

from frontier.errors import ConfigurationError
from frontier.files import open_input, read_input
from frontier.queue.item import MAX_BYTES as LONGEST
from frontier.status.text import first_of
from frontier.status.validate import printable
from frontier.urls.split import split

logger = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""Bytes of a seed list given to a spider; `frontier crawl seed` has no limit."""
MAX_PRIORITY = 10**9
SHOWN = 200
"""Characters of what was given that a message shows."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class SeedFault(ValueError):
    """A line is not a seed; the message says why, and can follow its place."""


class Seed(NamedTuple):
    """A request to begin with, as data."""

    url: str
    method: str = "GET"
    headers: Mapping[str, Any] = {}
    body: str = ""
    meta: Mapping[str, Any] = {}
    priority: int = 0
    callback: str = ""
    """The name of a method of the spider; empty for ``parse``."""
    cb_kwargs: Mapping[str, Any] = {}


DEFAULTS = Seed("")._asdict()


class Line(NamedTuple):
    """A line of the input, and where it is."""

    place: str
    text: str
    fault: str = ""
    """Why it cannot be read, if it cannot."""

    def seed(self) -> Seed:
        """The seed in it.

        Raises:
            SeedFault: It cannot be read, or is neither a URL nor a JSON object that
                makes a request.
        """
        if self.fault:
            raise SeedFault(self.fault)
        seed = _of_json(self.text) if self.text.startswith("{") else Seed(self.text)
        if fault := fault_of(seed.url):
            raise SeedFault(fault)
        return seed


def lines(name: str, file: BinaryIO) -> Iterator[Line]:
    """The lines of *file*, called *name*, but for empty ones and comments.

    One longer than a crawl stores is a fault.
    """
    number = 0
    while data := file.readline(LONGEST + 3):
        number += 1
        place = f"{name}:{number}"
        if len(data.rstrip(b"\r\n")) > LONGEST:
            while data and not data.endswith(b"\n"):
                data = file.readline(LONGEST)
            fault = f"takes more than {LONGEST:,} bytes, and no crawl stores such a URL"
            yield Line(place, "", fault)
            continue
        try:
            text = data.decode().strip().removeprefix("\ufeff").strip()
        except UnicodeDecodeError as error:
            yield Line(place, "", f"is not UTF-8, at its byte {error.start + 1}")
        else:
            if text and not text.startswith("#"):
                yield Line(place, text)


def lines_of_file(name: str) -> Iterator[Line]:
    """The lines of the file *name*; no line is held beyond its limit.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        with open_input(name) as file:
            yield from lines(printable(name[:SHOWN]), file)
    except (OSError, ValueError) as error:
        raise unreadable(name, error) from None


def unreadable(name: str, error: OSError | ValueError) -> ConfigurationError:
    """What is said of *name*, no URL, if opening it as a file is an *error*."""
    shown = repr(name[:SHOWN])
    if isinstance(error, FileNotFoundError):
        what = f"{shown} is neither a URL nor a file; a URL begins with https://"
        return ConfigurationError(what)
    reason = getattr(error, "strerror", None) or error
    return ConfigurationError(f"the file {shown} cannot be read: {reason}")


def read_seeds(given: str) -> list[str]:
    """The seeds that *given* names; see `seeds_and_faults`."""
    return seeds_and_faults(given)[0]


def seeds_and_faults(given: str) -> tuple[list[str], list[str]]:
    """The seeds that *given* names: a URL, several with commas, or a file.

    The second list says which lines are left out, and why.

    Empty lines of a file and those that begin with ``#`` are skipped. A line that is
    not a URL is logged with its number, and the rest is still read.

    Raises:
        ConfigurationError: There is no such file, or no valid seed in it; that names
            the first wrong line.
    """
    if not given:
        raise ConfigurationError(
            "no seeds: give a URL or a file with one URL per line, -a seeds=URL|FILE"
        )
    name, data = "seed", given.replace(",", "\n").encode("utf-8", "surrogateescape")
    try:
        if not _URL.match(given):
            name, data = given, read_input(given, MAX_BYTES)
    except (OSError, ValueError) as error:
        raise unreadable(given, error) from None
    seeds: dict[str, None] = {}
    faults = []
    for line in lines(name, BytesIO(data)):
        fault = "is a request: give it to frontier crawl seed"
        try:
            seed = line.seed()
        except SeedFault as raised:
            fault = str(raised)
        else:
            if seed == Seed(seed.url):
                seeds[seed.url] = None
                continue
        faults.append(f"{line.place}: {line.text[:200]!r} {fault}")
    if not seeds:
        why = first_of(faults, 1, "") or "it is empty"
        raise ConfigurationError(f"no seed in {given[:200]!r} can be crawled: {why}")
    for text in faults:
        logger.error("%s; skipped", text)
    return list(seeds), faults


def fault_of(url: str) -> str:
    """What keeps *url* from being crawled; empty if nothing does."""
    if _CONTROL.search(url) or any(map(str.isspace, url)):
        return "has white space or a control character in it"
    return "" if split(url).is_web else "is not an http or https URL"


def _of_json(text: str) -> Seed:
    """The seed in a JSON object; its URL is not checked.

    Raises:
        SeedFault: It is not one, or makes no request.
    """
    try:
        given: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SeedFault(f"is not JSON: {error}") from None
    for name, value in given.items():
        if name not in DEFAULTS:
            known = ", ".join(DEFAULTS)
            raise SeedFault(f"has a {name[:50]!r}, which is none of {known}")
        kind = type(DEFAULTS[name])
        if type(value) is not kind:
            raise SeedFault(f"has a {name} that is not of type {kind.__name__}")
    seed = Seed(**{**DEFAULTS, **given})
    fields = list(seed.headers)
    for value in seed.headers.values():
        fields += value if isinstance(value, list) else [value]
    if any(isinstance(one, str) and _CONTROL.search(one) for one in fields):
        raise SeedFault("has a control character in its headers")
    if not _TOKEN.fullmatch(seed.method):
        raise SeedFault("has a method that HTTP does not have")
    if seed.callback and (not seed.callback.isidentifier() or seed.callback[0] == "_"):
        raise SeedFault("has a callback that is not the name of a public method")
    if abs(seed.priority) > MAX_PRIORITY:
        raise SeedFault(f"has a priority that is beyond {MAX_PRIORITY:,}")
    return seed._replace(method=seed.method.upper())
