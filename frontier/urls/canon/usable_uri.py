"""Heritrix's fix-up of what pages call URLs: ``UsableURIFactory`` and ``LaxURI``.

What a URL becomes before any rule sees it: as browsers would send it, minimally
escaped, without its fragment.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from typing_extensions import override

from frontier.errors import InvalidURL
from frontier.urls.canon.hosts import MAX_LABEL, NO_PORT, port_number, to_ascii

MAX_LENGTH = 2083
"""UsableURI.MAX_URL_LENGTH: what Internet Explorer took."""
_PARTS = re.compile(
    r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?"
    r"((?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?)?"
    r"(?:#[^\n\r\u0085\u2028\u2029]*)?"
)
_SCHEME_SLASHES = re.compile("(https?://)/+([^\n\r\u0085\u2028\u2029]*)")
_STRAY = re.compile("[\n\r\t]+")
_CONTROLS = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` removes."""
_PATH_SAFE = "*/=&+,:;@$!)(|'"
_QUERY_SAFE = _PATH_SAFE + "{}[]^?"
_UNSAFE_PATH = re.compile(r"[^A-Za-z0-9\-~_.*/=&+,:;@$!)(%|']")
_UNSAFE_QUERY = re.compile(r"[^A-Za-z0-9\-~_.*/=&+,:;@$!)(%|'{}\[\]^?]")
_HOST = "[a-zA-Z0-9]++(?:[.-][a-zA-Z0-9]++)*+"
_PATH = r"/[A-Za-z0-9\-~_.*/=&+,:;@$!)(%|']*+"
_QUERY = r"[A-Za-z0-9\-~_.*/=&+,:;@$!)(%|'{}\[\]^?]++"
_EASY = re.compile(
    rf"(https?)://({_HOST})(:[1-9][0-9]{{0,3}})?+({_PATH})?+(?:\?({_QUERY})?+)?+"
)
"""URLs that need only a host in lower case, and perhaps dot segments removed."""
_PORT = re.compile("([^\n\r\u0085\u2028\u2029]*:)([0-9]+)")
_LEADING_UP = re.compile(r"(?:/\.\./)+")
_HOSTNAME = re.compile(r"[A-Za-z0-9._-]*")
_REG_NAME = re.compile(r"[A-Za-z0-9\-_.!~*'()%$,;:@&=+]*")
_LARGEST_PORT = 65535
_DEFAULT = {"http": ":80", "https": ":443"}


class Parts(NamedTuple):
    """The parts of a URL that is fixed."""

    scheme: str
    authority: str
    """Empty if there is none."""
    host: str
    port: str
    """``:<number>``, or empty."""
    path: str
    query: str
    """Empty if there is none, or it is empty."""

    @override
    def __str__(self) -> str:
        url = f"{self.scheme}:"
        if self.authority:
            url += f"//{self.authority}"
        url += self.path
        return f"{url}?{self.query}" if self.query else url


def usable(url: str) -> str:
    """*url* as Heritrix would fetch it.

    Raises:
        InvalidURL: Heritrix would refuse it.
    """
    found = _EASY.fullmatch(url)
    if found is not None and len(url) < MAX_LENGTH:
        scheme, host, port, path, query = found.groups()
        if len(host) <= MAX_LABEL:
            port = "" if port is None or port == _DEFAULT[scheme] else port
            path = (
                _without_dots(_lowered(path)) if path and "/." in path else path or "/"
            )
            end = f"?{query}" if query else ""
            return f"{scheme}://{host.lower()}{port}{path}{end}"
    return str(fixed(url))


def fixed(url: str) -> Parts:
    """The parts of *url* as Heritrix would fetch it.

    Raises:
        InvalidURL: Heritrix would refuse it.
    """
    scheme, rest, given, path, query = _split(url)
    authority = host = port = ""
    if given:
        fixed_authority = _fixed_authority(url, given)
        authority, host, port = _authority(url, scheme, fixed_authority)
    if rest.startswith("/"):
        path = _lowered(path) or "/"
    path = _escaped(path, _UNSAFE_PATH, _PATH_SAFE)
    query = _escaped(query, _UNSAFE_QUERY, _QUERY_SAFE)
    if not authority and path.startswith("//"):
        # Heritrix parses the joined parts once more, and then this is an authority.
        again, slash, tail = path[2:].partition("/")
        if again:
            authority, host, port = _parsed_authority(url, again)
            path = slash + tail
        else:
            path = "//" + _without_dots(slash + tail)
    elif "|" in path and "/" not in path:
        raise InvalidURL(url, "it has a | where no path begins")
    if (authority or path[:1] == "/" != path[1:2]) and "/." in path:
        path = _without_dots(path)
    made = Parts(scheme, authority, host, port, path, query)
    # A URL is longer than its parts by ":", "//" and "?" at most.
    length = len(scheme) + len(authority) + len(path) + len(query)
    if length > MAX_LENGTH - 4 and len(str(made)) > MAX_LENGTH:
        raise InvalidURL(url, f"escaped it has more than {MAX_LENGTH} characters")
    return made


def _split(url: str) -> tuple[str, str, str, str, str]:
    """Scheme, what follows it, authority, path and query of *url*, not yet fixed."""
    if not url:
        raise InvalidURL(url, "it is empty")
    if _units(url) > MAX_LENGTH:
        raise InvalidURL(url, f"it has more than {MAX_LENGTH} characters")
    found = _PARTS.fullmatch(_tidied(url))
    if found is None:
        raise InvalidURL(url, "it has a line break in its fragment")
    scheme, rest, authority, path, query = found.groups()
    if not scheme:
        raise InvalidURL(url, "it has no scheme")
    scheme = scheme.lower()
    if scheme in ("http", "https"):
        if not (rest or "").startswith("//"):
            raise InvalidURL(url, "there is no // after its scheme")
        if rest == "//":
            raise InvalidURL(url, "it has no host")
    return scheme, rest or "", authority or "", path or "", query or ""


def _lowered(path: str) -> str:
    """*path* without the ``/../`` that it begins with."""
    return _LEADING_UP.sub("/", path, count=1) if path[:4] == "/../" else path


def _units(text: str) -> int:
    """How many UTF-16 units *text* has, which is its length in Java."""
    return (
        len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2
    )


def _tidied(url: str) -> str:
    """*url* without stray white space or extra slashes, and with backslashes turned."""
    if "\u00a0" in url:
        url = url.replace("\u00a0", " ")
    url = url.strip(_CONTROLS)
    if "\\" in url:
        head, mark, tail = url.partition("?")
        url = head.replace("\\", "/") + mark + tail
    url = _STRAY.sub("", url)
    if url[:8] in ("http:///", "https://"):
        found = _SCHEME_SLASHES.fullmatch(url)
        if found is not None:
            url = found[1] + found[2]
    return url


def _fixed_authority(url: str, authority: str) -> str:
    """fixupAuthority: with the host in lower case and ASCII, and the user escaped."""
    while authority.endswith(("%20", " ")):
        authority = authority.removesuffix(" ").removesuffix("%20")
    at = authority.find("@")
    colon = authority.find(":", max(at, 0))
    user, host, port = authority[: at + 1], authority[at + 1 :], ""
    if colon >= 0:
        host, port = authority[at + 1 : colon], authority[colon:]
    user = _escaped(user, _UNSAFE_PATH, _PATH_SAFE)
    return user + to_ascii(url, host) + port


def _authority(url: str, scheme: str, authority: str) -> tuple[str, str, str]:
    """Check port and dots, then parse: the whole authority, its host, its port."""
    if scheme in ("http", "https"):
        authority = _checked_port(url, authority)
        authority = authority.removesuffix(":80" if scheme == "http" else ":443")
    return _parsed_authority(url, authority.removesuffix(".").removeprefix("."))


def _parsed_authority(url: str, authority: str) -> tuple[str, str, str]:
    """The whole authority, its host and port, as LaxURI.parseAuthority has them."""
    start = authority.find("@") + 1
    if "[" in authority[start:]:
        end = authority.find("]", start) + 1
        if not end:
            raise InvalidURL(url, "its IPv6 address has no end")
    else:
        end = authority.find(":", start)
        end = len(authority) if end < 0 else end
        if not _HOSTNAME.fullmatch(authority, start, end):
            if not _REG_NAME.fullmatch(authority):
                raise InvalidURL(url, "its host has characters that none may have")
            return authority, authority[start:end], ""
    port = ""
    if end < len(authority) - 1 and authority[end] == ":":
        number = authority[end + 1 :]
        parsed = port_number(url, number)
        port = "" if parsed == NO_PORT else f":{parsed}"
    return authority[:end] + port, authority[start:end], port


def _checked_port(url: str, authority: str) -> str:
    if ":" not in authority:
        return authority
    found = _PORT.fullmatch(authority)
    if found is None:
        return authority
    number = found[2].lstrip("0") or "0"
    if not 0 < int(number[:6]) <= _LARGEST_PORT or len(number) > len("65535"):
        raise InvalidURL(url, "its port is out of bounds")
    return found[1] + number


def _escaped(text: str, unsafe: re.Pattern[str], safe: str) -> str:
    """Minimal escaping: only where something needs it, and then ``%`` as well."""
    return quote(text, safe, errors="replace") if unsafe.search(text) else text


def _without_dots(path: str) -> str:
    """What URI.normalize makes of an absolute path, in its order."""
    while "/./" in path:
        path = path.replace("/./", "/", 1)
    if path.endswith("/."):
        path = path[:-1]
    start = 0
    while (at := path.find("/../", start)) >= 0:
        slash = path.rfind("/", 0, at)
        if slash >= 0:
            path = path[:slash] + path[at + 3 :]
        else:
            start = at + 3
    if path.endswith("/.."):
        slash = path.rfind("/", 0, max(len(path) - 3, 0))
        if slash >= 0:
            path = path[: slash + 1]
    while (at := path.find("/../")) >= 0 and path.rfind("/", 0, at) < 0:
        path = path[at + 3 :]
    if path.endswith("/..") and path.rfind("/", 0, max(len(path) - 3, 0)) < 0:
        path = "/"
    return path
