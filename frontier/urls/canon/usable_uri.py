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
from frontier.urls.canon.heritrix import ANY
from frontier.urls.canon.hosts import NO_PORT, port_number, to_ascii
from frontier.urls.split import WEB

MAX_LENGTH = 2083
"""UsableURI.MAX_URL_LENGTH: what Internet Explorer took."""
_PARTS = re.compile(
    r"(?:([a-zA-Z][a-zA-Z0-9+.-]*):)?"
    r"((?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?)?"
    rf"(?:#{ANY}*)?"
)
_SCHEME_SLASHES = re.compile(rf"\A(https?://)/+(?={ANY}*\Z)")
_STRAY = re.compile("[\n\r\t]+")
_CONTROLS = "".join(map(chr, range(0x21)))
"""What Java's ``trim`` removes."""
_PATH_SAFE = "*/=&+,:;@$!)(|'"
_QUERY_SAFE = _PATH_SAFE + "{}[]^?"
_UNSAFE_PATH = re.compile(r"[^A-Za-z0-9\-~_.*/=&+,:;@$!)(%|']")
_UNSAFE_QUERY = re.compile(r"[^A-Za-z0-9\-~_.*/=&+,:;@$!)(%|'{}\[\]^?]")
_EASY = re.compile(
    r"https?://(?=[^/]{1,63}/)[a-z0-9]++(?:[.-][a-z0-9]++)*+"
    r"/[A-Za-z0-9\-~_.*/=&+,:;@$!)(%|']*+"
    r"(?:\?[A-Za-z0-9\-~_.*/=&+,:;@$!)(%|'{}\[\]^?]++)?+"
)
"""URLs that are usable as they are, unless they have dot segments."""
_PORT = re.compile(rf"({ANY}*:)([0-9]+)")
_LEADING_UP = re.compile(r"\A(?:/\.\./)+")
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
    if len(url) < MAX_LENGTH and "/." not in url and _EASY.fullmatch(url):
        return url
    return str(fixed(url))


def fixed(url: str) -> Parts:
    """The parts of *url* as Heritrix would fetch it.

    Raises:
        InvalidURL: Heritrix would refuse it.
    """
    scheme, rest, given, path, query = _split(url)
    authority = host = port = ""
    if given:
        authority, host, port = _authority(url, scheme, given)
    if path.startswith("/../"):
        path = _LEADING_UP.sub("/", path)
    if rest.startswith("/"):
        path = path or "/"
    path = _escaped(path, _UNSAFE_PATH, _PATH_SAFE)
    query = _escaped(query, _UNSAFE_QUERY, _QUERY_SAFE)
    if not authority and path.startswith("//"):
        # Heritrix parses the joined parts once more, and then this is an authority.
        again, slash, tail = path[2:].partition("/")
        path = slash + tail
        if again:
            authority, host, port = _parsed_authority(url, again)
        else:
            path = "//" + _without_dots(path)
    elif "|" in path and "/" not in path:
        raise InvalidURL(url, "it has a | where no path begins")
    if authority or path[:1] == "/" != path[1:2]:
        path = _without_dots(path)
    made = Parts(scheme, authority, host, port, path, query)
    # A URL is longer than its parts by ":", "//" and "?" at most.
    length = len(scheme + authority + path + query)
    if length > MAX_LENGTH - 4 and len(str(made)) > MAX_LENGTH:
        raise InvalidURL(url, f"escaped it has more than {MAX_LENGTH} characters")
    return made


def _split(url: str) -> list[str]:
    """Scheme, what follows it, authority, path and query of *url*, not yet fixed."""
    if not url:
        raise InvalidURL(url, "it is empty")
    length = len(url) if url.isascii() else len(url.encode("utf-16-le", "replace")) // 2
    if length > MAX_LENGTH:  # as Java counts
        raise InvalidURL(url, f"it has more than {MAX_LENGTH} characters")
    found = _PARTS.fullmatch(_tidied(url))
    if found is None:
        raise InvalidURL(url, "it has a line break in its fragment")
    scheme, rest, *others = found.groups("")
    if not scheme:
        raise InvalidURL(url, "it has no scheme")
    scheme = scheme.lower()
    if scheme in WEB and not rest.startswith("//"):
        raise InvalidURL(url, "there is no // after its scheme")
    if scheme in WEB and rest == "//":
        raise InvalidURL(url, "it has no host")
    return [scheme, rest, *others]


def _tidied(url: str) -> str:
    """*url* without stray white space or extra slashes, and with backslashes turned."""
    url = url.replace("\u00a0", " ").strip(_CONTROLS)
    if "\\" in url:
        head, mark, tail = url.partition("?")
        url = head.replace("\\", "/") + mark + tail
    url = _STRAY.sub("", url)
    slashes = url.startswith(("http:///", "https:///"))
    return _SCHEME_SLASHES.sub(r"\1", url) if slashes else url


def _authority(url: str, scheme: str, given: str) -> tuple[str, str, str]:
    """The whole authority, its host in ASCII, and its port."""
    while given.endswith(("%20", " ")):
        given = given.removesuffix(" ").removesuffix("%20")
    start = given.find("@") + 1
    user = _escaped(given[:start], _UNSAFE_PATH, _PATH_SAFE)
    host, colon, port = given[start:].partition(":")
    authority = user + to_ascii(url, host) + colon + port
    if scheme in WEB:
        if (found := _PORT.fullmatch(authority)) is not None:
            number = found[2].lstrip("0")
            if not 0 < len(number) < 6 or int(number) > _LARGEST_PORT:
                raise InvalidURL(url, "its port is out of bounds")
            authority = found[1] + number
        authority = authority.removesuffix(_DEFAULT[scheme])
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


def _escaped(text: str, unsafe: re.Pattern[str], safe: str) -> str:
    """Minimal escaping: only where something needs it, and then ``%`` as well."""
    return quote(text, safe, errors="replace") if unsafe.search(text) else text


def _without_dots(path: str) -> str:
    """What URI.normalize makes of an absolute *path*: no ``.`` and no ``..``."""
    if "/." not in path:
        return path
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if path.endswith(("/.", "/..")):
        kept.append("")
    return "/" + "/".join(kept)
