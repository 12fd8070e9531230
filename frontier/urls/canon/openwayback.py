"""OpenWayback's ``AggressiveUrlCanonicalizer``: its two functions.

They differ: `canonicalize` keeps scheme and port, and is much like Heritrix's
default; `key` is what OpenWayback's CDX files are sorted by.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote, unquote_to_bytes

from frontier.urls.canon.heritrix import ANY, fixup_query, parts, without
from frontier.urls.canon.usable_uri import fixed

_PARTS = parts(
    ("@", rf"(?:https?|ftps?)://([^/]+@){ANY}*"),
    ("/www", rf"https?://(www[0-9]*\.)[^/]*/{ANY}+"),
    ("phpsessid=", rf"{ANY}+(phpsessid=[0-9a-zA-Z]{{32}}&?){ANY}*"),
    ("jsessionid=", rf"{ANY}*(jsessionid=[0-9a-zA-Z]{{32}}&?){ANY}*"),
    ("aspsessionid", rf"{ANY}+(aspsessionid[a-zA-Z]{{8}}=[a-zA-Z]{{24}}&?){ANY}*"),
    (".aspx", rf"{ANY}*/(\([0-9a-z]{{24}}\)/)[^?]+\.aspx{ANY}*"),
    (".aspx", rf"{ANY}*/(\((?:[a-z]\([0-9a-z]{{24}}\))+\)/)[^?]+\.aspx{ANY}*"),
    ("sid=", rf"{ANY}+(sid=[0-9a-zA-Z]{{32}}&?){ANY}*"),
    ("cftoken=", rf"{ANY}+(cfid=[^&]+&cftoken=[^&]+(?:&jsessionid=[^&]+)?&?){ANY}*"),
)
_SCHEMES = ("http://", "https://", "ftp://", "ftps://", "mms://", "rtsp://", "wais://")
_PORTS = {
    "http://": ":80",
    "https://": ":443",
    "ftp://": ":21",
    "mms://": ":1755",
    "rtsp://": ":554",
}
_WWW = re.compile(r"www[0-9]*\.", re.ASCII)
_SLASHES = re.compile("//+")
_ALLOWED_PATH = "!*'():@&=+$,;/"


def canonicalize(url: str) -> str:
    """``canonicalize``: lower case, no user, www, session ids or empty query."""
    return fixup_query(without(url.lower(), _PARTS))


def key(url: str, rules: Callable[[str], str] | None = None) -> str:
    """``urlStringToKey``: without the scheme, unescaped where that is possible.

    *rules* of a site are applied to the result of `canonicalize`.

    Raises:
        InvalidURL: OpenWayback would throw a URIException.
    """
    if url.startswith("dns:"):
        return url
    search = canonicalize(url)
    if rules is not None:
        search = rules(search)
    scheme = next((name for name in _SCHEMES if search.startswith(name)), "")
    search = search.removeprefix(scheme)
    scheme = scheme or "http://"
    if "/" not in search:
        search += "/"
    first = fixed(scheme + search)
    # setPath(getPath())
    again = first._replace(
        path=quote(_unescaped(first.path), _ALLOWED_PATH, errors="replace")
    )
    last = fixed(_unescaped(str(again)))
    path = _SLASHES.sub("/", last.path.replace("%20", "+"))
    host = _unescaped(last.host)
    host = _WWW.sub("", host, count=1) if _WWW.match(host) else host
    port = "" if last.port == _PORTS.get(scheme) else last.port
    query = f"?{last.query}" if last.query else ""
    return f"{host}{port}{path}{query}"


def _unescaped(text: str) -> str:
    """LaxURI.decode: every ``%xx``, as UTF-8, and ``+`` as a space; no errors."""
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    return unquote_to_bytes(text).decode("utf-8", "replace")
