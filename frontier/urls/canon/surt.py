"""webarchive-commons: its ``HandyURL``, and its canonicalizers.

A `HandyURL` is a URL in parts, with percent escapes as in webarchive-commons and
Google's Safe Browsing. The canonicalizers are Google's rules and the Internet
Archive's; today's CDX indexes are sorted by their sort-friendly keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from typing_extensions import override

from frontier.errors import InvalidURL
from frontier.model import frozen
from frontier.urls.canon.heritrix import ANY, FLAGS
from frontier.urls.canon.hosts import NO_PORT, lenient_ascii, port_number

_RUN = re.compile("(?:%[0-9A-Fa-f]{2})+")
_NESTED = re.compile("%(?:25)+")
_TO_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|[\x00-\x20#%\x80-\xff]")
_ESCAPE_NEEDED = re.compile("[\x00-\x20#%\x80-\U0010ffff]")


def unescape(text: str) -> str:
    """Undo every escape of ASCII or UTF-8, once; others stay as they are."""
    return _RUN.sub(_decoded_run, text) if "%" in text else text


def unescape_repeatedly(text: str) -> str:
    """`unescape` until nothing changes."""
    if "%2525" in text:  # one round for each 25: do them all at once
        text = _NESTED.sub("%", text)
    while "%" in text:
        decoded = unescape(text)
        if decoded == text:
            break
        text = decoded
    return text


def escape_once(text: str) -> str:
    """Escape white space, controls, ``#``, ``%`` and, as UTF-8, what is not ASCII.

    An escape that `unescape` left, as it is not UTF-8, is not escaped again.
    """
    if not _ESCAPE_NEEDED.search(text):
        return text
    made = _TO_ESCAPE.sub(_escaped, text.encode("utf-8", "replace"))
    return made.decode("ascii")


def minimal_escape(text: str) -> str:
    """Undo all escapes, and make those that are needed."""
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
    """The whole URL, if it has no parts."""

    @override
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

    An IPv6 address loses its brackets, unless it ends like an IPv4 address.

    Raises:
        InvalidURL: It is empty.
    """
    if "." in host:
        return ",".join(reversed(host.split(".")))
    if not host:
        raise InvalidURL(host, "it has no host")
    return host[1:-1] if host[0] == "[" and host[-1] == "]" else host


def parse_url(text: str) -> HandyURL:
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
    # An IPv6 address after a user is not recognized; its port is then not a number.
    start = authority.find("]") if authority[0] == "[" and at < 0 else at
    colon_at = authority.find(":", max(start, 0))
    if colon_at >= 0:
        port = authority[colon_at + 1 :]
        if port:
            made.port = port_number(text, port)
        made.host = authority[at + 1 : colon_at]
    elif at >= 0:
        made.host = authority[at + 1 :]
    return made


_DOTS = re.compile(r"\.{2,}")
_DIGITS = re.compile("[0-9]+")
_OCTAL = re.compile(r"(0[0-7]*)(\.[0-7]+)?(\.[0-7]+)?(\.[0-7]+)?")
_DECIMAL = re.compile(r"([1-9][0-9]*)(\.[0-9]+)?(\.[0-9]+)?(\.[0-9]+)?")
_WWW = re.compile(r"(?:www[0-9]*\.)+")
_LARGEST_LONG = 2**63 - 1
_PORTS = {"http": 80, "https": 443}
_EASY = re.compile(
    r"(https?)://([A-Za-z][A-Za-z0-9]*+(?:[.-][A-Za-z0-9]++)*+)(?::([0-9]{1,5}))?+"
    r"(/[!-\"$&->@-~]*+)?+(?:\?([!-\"$&-~]*+))?+"
)
"""URLs that Google's rules leave alone, but for dot segments: most of the web's."""
_PATH_SESSIONS = tuple(
    re.compile(expression, FLAGS)
    for expression in (
        rf"{ANY}*/(\((?:[a-z]\([0-9a-z]{{24}}\))+\)/)[^?]+\.aspx{ANY}*",
        rf"{ANY}*/(\([0-9a-z]{{24}}\)/)(?:[^?]+\.aspx{ANY}*)",
    )
)
_QUERY_SESSIONS = tuple(
    (guard, re.compile(rf"({ANY}*)(?:{expression})(?:&({ANY}*))?", FLAGS))
    for guard, expression in (
        ("jsessionid=", "jsessionid=[0-9a-zA-Z]{32}"),
        ("phpsessid=", "phpsessid=[0-9a-zA-Z]{32}"),
        ("sid=", "sid=[0-9a-zA-Z]{32}"),
        ("aspsessionid", "aspsessionid[a-zA-Z]{8}=[a-zA-Z]{24}"),
        ("cftoken=", "cfid=[^&]+&cftoken=[^&]+"),
    )
)


@frozen
class Profile:
    """Which of the Internet Archive's rules apply, as in ``CanonicalizeRules``."""

    massage_host: bool = True
    strips: bool = True
    """No user; path and query in lower case and without session ids; the path without
    a slash at its end, the query sorted."""


AGGRESSIVE = Profile()
NON_MASSAGING = Profile(massage_host=False)
ORDINARY = Profile(massage_host=False, strips=False)


def google(url: HandyURL) -> None:
    """BasicURLCanonicalizer: minimal escapes, no stray dots, IPv4, no fragment."""
    if url.opaque is not None:
        return
    url.fragment = None
    if url.user is not None:
        url.user = minimal_escape(url.user)
    if url.password is not None:
        url.password = minimal_escape(url.password)
    if url.query is not None:
        url.query = minimal_escape(url.query)
    host = _without_stray_dots(lenient_ascii(unescape_repeatedly(url.host)))
    url.host = ip_of(host) or escape_once(host.lower())
    url.path = escape_once(normal_path(unescape_repeatedly(url.path)))


def archive(url: HandyURL, profile: Profile) -> None:
    """IAURLCanonicalizer, with the rules of *profile*."""
    if url.opaque is not None:
        return
    url.scheme = url.scheme.lower()
    url.host = url.host.lower()
    if profile.massage_host:
        url.host = massage_host(url.host)
    if url.port == _PORTS.get(url.scheme, 0):
        url.port = NO_PORT
    if profile.strips:
        url.user = url.password = None
        url.path, url.query = _stripped(url.path, url.query)
    url.query = url.query or None


def _stripped(path: str, query: str | None) -> tuple[str, str | None]:
    """*path* and *query* without what does not tell pages apart."""
    path = strip_path_session_id(path.lower())
    path = path[:-1] if len(path) > 1 and path.endswith("/") else path
    if query:
        query = reorder_query(strip_query_session_id(query).lower())
    return path, query


def key_of(text: str, profile: Profile = AGGRESSIVE) -> str:
    """WaybackURLKeyMaker: the sort-friendly key of *text*."""
    if not text:
        return "-"
    if text.startswith(("filedesc", "warcinfo")):
        return text
    if text.startswith("dns:"):
        return f"{host_to_surt(text[4:])})"
    easy = _EASY.fullmatch(text)
    if easy is not None:
        path = easy[4] or "/"
        if "/." not in path and "//" not in path:
            return _easy_key(easy, path, profile)
    url = parse_url(text)
    if url.opaque is not None:  # what comes after "(", if there is one
        _, bracket, key = url.opaque.partition("(")
        return key if bracket else text
    google(url)
    archive(url, profile)
    return url.surt()


def _easy_key(parts: re.Match[str], path: str, profile: Profile) -> str:
    """`key_of` for a URL in which nothing has to be parsed or escaped."""
    scheme, host, given, _, query = parts.groups()
    host = host.lower()
    if profile.massage_host and host.startswith("www"):
        host = massage_host(host)
    port = ""
    if given is not None and int(given) != _PORTS[scheme]:
        port = f":{int(given)}"
    if profile.strips:
        path, query = _stripped(path, query)
    end = f"?{query}" if query else ""
    return f"{host_to_surt(host)}{port}){path}{end}"


def normal_path(path: str) -> str:
    """*path* without ``.``, ``..`` and empty segments; the last may be empty."""
    if "/." not in path and "//" not in path:
        return path if path.startswith("/") else _from_first_slash(path)
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == ".":
            continue
        if segment == ".." and kept:
            kept.pop()
        else:
            kept.append(segment)
    if not kept:
        return "/"
    return "/" + "".join(f"{one}/" for one in kept[:-1] if one) + kept[-1]


def _from_first_slash(path: str) -> str:
    return "/" + path.partition("/")[2]


def _without_stray_dots(host: str) -> str:
    if "." not in host:
        return host
    host = host.strip(".")
    return _DOTS.sub(".", host) if ".." in host else host


def ip_of(host: str) -> str | None:
    """The IPv4 address that *host* means as a number, in octal or in decimal."""
    if not host or not host[0].isdigit():
        return None
    if _DIGITS.fullmatch(host):
        number = int(host) if len(host) < len(str(_LARGEST_LONG)) + 1 else -1
        if not 0 <= number <= _LARGEST_LONG:
            return None
        number &= 0xFFFFFFFF
        return ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8, 0))
    for pattern, base in ((_OCTAL, 8), (_DECIMAL, 10)):
        found = pattern.fullmatch(host)
        if found is not None:
            octets = [int(g.lstrip("."), base) if g else 256 for g in found.groups()]
            if max(octets) > 0xFF:
                return None
            return ".".join(map(str, octets))
    return None


def massage_host(host: str) -> str:
    """*host* without ``www.`` or ``www<digits>.`` before it, however many."""
    found = _WWW.match(host)
    return host[found.end() :] if found else host


def strip_path_session_id(path: str) -> str:
    """*path* without the session ids that ASP.NET puts there in parentheses."""
    if ".aspx" not in path.lower():
        return path
    for pattern in _PATH_SESSIONS:
        found = pattern.fullmatch(path)
        if found is not None:
            path = path[: found.start(1)] + path[found.end(1) :]
    return path


def strip_query_session_id(query: str) -> str:
    """*query* without session ids of Java, PHP, ASP and ColdFusion."""
    low = query.lower()
    for guard, pattern in _QUERY_SESSIONS:
        if guard in low:
            found = pattern.fullmatch(query)
            if found is not None:
                query = found[1] + (found[2] or "")
    return query


def reorder_query(query: str) -> str:
    """Sort the arguments of *query* by name, and by value where names are equal."""
    if "&" not in query:
        return query
    arguments = [argument.partition("=") for argument in query.split("&")]
    arguments.sort()  # (name, "" or "=", value): no value before an empty one
    return "&".join(map("".join, arguments))
