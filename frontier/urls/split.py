"""One split of a URL, for all who ask what its host, port, path or query is."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

WEB = ("http", "https")
DEFAULT_PORTS = {"http": 80, "https": 443}
_USUAL = re.compile(
    r"(https?)://([a-z0-9-]++(?:\.[a-z0-9-]++)*+)(/[!-\"$->@-~]*+)(?:\?([!-\"$-~]*+))?+"
)
"""A link as it mostly is, in half of the time."""
_NO_HOST = re.compile(r"https?:(?!//[^/?#])", re.IGNORECASE)
"""What begins as a URL and is none; joined, it would be another page of the site."""
NO_PORT = 0
"""The port of a URL that names one which cannot be."""


class Parts(NamedTuple):
    """What a URL says; empty where it says nothing, or is none."""

    scheme: str
    """In lower case, as the host."""
    host: str
    """Without user, brackets and dots at its end."""
    port: int | None
    """``None`` if it is that of the scheme, written or not; or `NO_PORT`."""
    authority: str
    """The host, in brackets if it is of IPv6, with its port if there is one."""
    path: str
    query: str

    @property
    def is_web(self) -> bool:
        """Whether it is of http or https, with a host and a port that can be."""
        return self.scheme in WEB and bool(self.host) and self.port != NO_PORT


@lru_cache(maxsize=2_000)  # a link is asked for by a handful of rules, one by one
def split(url: str) -> Parts:
    """The parts of *url*; it never raises."""
    if (usual := _USUAL.fullmatch(url)) is not None:
        scheme, host, path, query = usual.groups("")
        return Parts(scheme, host, None, host, path, query)
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
    except ValueError:
        return Parts("", "", None, "", "", "")
    try:
        port = parts.port
    except ValueError:
        port = NO_PORT
    if port == DEFAULT_PORTS.get(parts.scheme):
        port = None
    authority = f"[{host}]" if ":" in host else host
    if host and port is not None:
        authority += f":{port}"
    return Parts(parts.scheme, host, port, authority, parts.path, parts.query)


def web_url(base: str, text: str, longest: int) -> str:
    """The URL that *text* says in a document at *base*; empty if it can be none.

    It is of http or https, of *longest* characters at most, and can be printed.
    """
    try:
        url = urljoin(base, text)
    except ValueError:
        return ""
    is_one = split(url).is_web and not _NO_HOST.match(text)
    fits = len(url) <= longest and url.isprintable() and " " not in url
    return url if is_one and fits else ""
