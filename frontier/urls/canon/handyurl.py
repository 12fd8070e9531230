"""webarchive-commons' ``HandyURL``: a URL in parts, and how it is parsed.

Percent escapes as webarchive-commons and Google's Safe Browsing have them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frontier.errors import InvalidURL

_RUN = re.compile("(?:%[0-9A-Fa-f]{2})+")
_NESTED = re.compile("%(?:25)+")
_TO_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|[\x00-\x20#%\x80-\xff]")
_ESCAPE_NEEDED = re.compile("[\x00-\x20#%\x80-\U0010ffff]")


def decode(text: str) -> str:
    """Every escape that is ASCII or UTF-8 undone, once; others stay as they are."""
    return _RUN.sub(_decoded_run, text) if "%" in text else text


def unescape_repeatedly(text: str) -> str:
    """`decode` until nothing changes."""
    if "%2525" in text:  # as many rounds as there are 25s: all of them at once
        text = _NESTED.sub("%", text)
    while "%" in text:
        decoded = decode(text)
        if decoded == text:
            break
        text = decoded
    return text


def escape_once(text: str) -> str:
    """White space, controls, ``#``, ``%`` and what is not ASCII, as UTF-8, escaped.

    An escape that is there, as it is not UTF-8, is not escaped again.
    """
    if not _ESCAPE_NEEDED.search(text):
        return text
    made = _TO_ESCAPE.sub(_escaped, text.encode("utf-8", "replace"))
    return made.decode("ascii")


def minimal_escape(text: str) -> str:
    """All escapes undone, and those that are needed made."""
    if "%" not in text and not _ESCAPE_NEEDED.search(text):
        return text
    return escape_once(unescape_repeatedly(text))


def _decoded_run(found: re.Match[str]) -> str:
    run = found[0]
    data = bytes.fromhex(run.replace("%", ""))
    if data.isascii():
        return data.decode("ascii")
    made: list[str] = []
    at = 0
    while at < len(data):
        try:
            made.append(data[at:].decode("utf-8"))
        except UnicodeDecodeError as error:
            bad, end = at + error.start, at + error.end
            made.append(data[at:bad].decode("utf-8"))
            made.append(run[3 * bad : 3 * end])
            at = end
        else:
            break
    return "".join(made)


def _escaped(found: re.Match[bytes]) -> bytes:
    text = found[0]
    return text.upper() if len(text) > 1 else b"%%%02X" % text[0]


_CONTROLS = "".join(map(chr, range(0x21)))
_STRAY = re.compile("[\n\r\t\u0085\u2028\u2029]+")
_KNOWN = re.compile("(?:https?|ftp|mms|rtsp|wais)://", re.ASCII | re.IGNORECASE)
_SCHEME_SLASHES = re.compile("(https?://)/+")
_PARTS = re.compile(
    r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_OPAQUE = ("dns:", "filedesc:", "warcinfo:")
_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_LARGEST_INT = 2**31 - 1
NO_PORT = -1


@dataclass(slots=True)
class HandyURL:
    """The parts of a URL; ``None`` where there is none."""

    scheme: str = ""
    user: str | None = None
    password: str | None = None
    host: str = ""
    port: int = NO_PORT
    path: str = ""
    query: str | None = None
    fragment: str | None = None
    opaque: str | None = None
    """All of it, if it has no parts."""

    def __str__(self) -> str:
        if self.opaque is not None:
            return self.opaque
        return f"{self.scheme}://{self._user()}{self.host}{self._port()}{self._rest()}"

    def surt(self) -> str:
        """The sort-friendly form, without the scheme.

        Raises:
            InvalidURL: There is no host.
        """
        if self.opaque is not None:
            return self.opaque
        host = host_to_surt(self.host)
        return f"{self._user()}{host}{self._port()}){self._rest()}"

    def _user(self) -> str:
        if self.user is None:
            return ""
        secret = "" if self.password is None else f":{self.password}"
        return f"{self.user}{secret}@"

    def _port(self) -> str:
        return "" if self.port == NO_PORT else f":{self.port}"

    def _rest(self) -> str:
        rest = self.path
        if not rest and (self.query is not None or self.fragment is not None):
            rest = "/"
        if self.query is not None:
            rest += f"?{self.query}"
        if self.fragment is not None:
            rest += f"#{self.fragment}"
        return rest


def host_to_surt(host: str) -> str:
    """*host* from its last label to its first, with commas between.

    An IPv6 address without its brackets, unless it ends like one of IPv4.

    Raises:
        InvalidURL: It is empty.
    """
    if "." in host:
        return ",".join(reversed(host.split(".")))
    if not host:
        raise InvalidURL(host, "it has no host")
    return host[1:-1] if host[0] == "[" and host[-1] == "]" else host


def parse(text: str) -> HandyURL:
    """*text* in parts; ``http://`` is put before it if it has no known scheme.

    Raises:
        InvalidURL: It has no host, or its port is not a number.
    """
    url = _STRAY.sub("", text.strip(_CONTROLS))
    if url.startswith(_OPAQUE):
        return HandyURL(opaque=url)
    if not _KNOWN.match(url):
        url = f"http://{url}"
    if url[:8] in ("http:///", "https://"):
        url = _SCHEME_SLASHES.sub(r"\1", url, count=1)
    found = _PARTS.fullmatch(url)
    if found is None:
        raise InvalidURL(text, "it has no parts of a URL")
    scheme, authority, path, query, fragment = found.groups()
    if not authority:
        raise InvalidURL(text, "it has no host")
    made = HandyURL(scheme, path=path, query=query, fragment=fragment)
    made.host = authority
    at = authority.find("@")
    if at >= 0:
        user, colon, password = authority[:at].partition(":")
        made.user, made.password = user, password if colon else None
    # An IPv6 address after a user is not seen as one; its port is then no number.
    start = authority.find("]") if authority[0] == "[" and at < 0 else at
    colon_at = authority.find(":", max(start, 0))
    if colon_at >= 0:
        port = authority[colon_at + 1 :]
        if port:
            if not _NUMBER.fullmatch(port) or abs(int(port)) > _LARGEST_INT:
                raise InvalidURL(text, "its port is not a number")
            made.port = int(port)
        made.host = authority[at + 1 : colon_at]
    elif at >= 0:
        made.host = authority[at + 1 :]
    return made
