"""Splits a URL once, for all code that needs its host, port, path or query."""

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
"""The form of most links; splitting them this way takes half the time."""
_NO_HOST = re.compile(r"https?:(?!//[^/?#])", re.IGNORECASE)
"""Begins like a URL but has no host; joined, it would be another page of the site."""
NO_PORT = 0
"""The port of a URL that names an impossible one."""


class Parts(NamedTuple):
    """The parts of a URL; empty where one is missing, or if it is not a URL."""

    scheme: str
    """In lower case, like the host."""
    host: str
    """Without user, brackets and dots at its end."""
    port: int | None
    """``None`` for the scheme's default, written or not; may be `NO_PORT`."""
    authority: str
    """The host, in brackets if it is an IPv6 address, with `port` if not ``None``."""
    path: str
    query: str

    @property
    def is_web(self) -> bool:
        """Whether it is an http(s) URL with a host and a valid port."""
        return self.scheme in WEB and bool(self.host) and self.port != NO_PORT


@lru_cache(maxsize=2_000)  # a handful of rules split the same link in turn
def split(url: str) -> Parts:
    """Split *url*; raises nothing, whatever it is."""
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
    """The URL that *text* means in a document at *base*; empty if it is not usable.

    A usable one is http(s), has at most *longest* characters, and is printable.
    """
    try:
        url = urljoin(base, text)
    except ValueError:
        return ""
    is_one = split(url).is_web and not _NO_HOST.match(text)
    fits = len(url) <= longest and url.isprintable() and " " not in url
    return url if is_one and fits else ""
