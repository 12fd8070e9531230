"""webarchive-commons: its ``HandyURL``, and its canonicalizers.

A `HandyURL` is a URL in parts, with percent escapes as in webarchive-commons and
Google's Safe Browsing. The canonicalizers are Google's rules and the Internet
Archive's; today's CDX indexes are sorted by their sort-friendly keys.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frontier.errors import InvalidURL
from frontier.urls.canon.heritrix import ANY, parts, without
from frontier.urls.canon.hosts import NO_PORT, lenient_ascii, port_number

_RUN = re.compile("(?:%[0-9A-Fa-f]{2})+")
_NESTED = re.compile("%(?:25)+")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_TO_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|[\x00-\x20#%\x80-\xff]")
_ESCAPE_NEEDED = re.compile("[\x00-\x20#%\x80-\U0010ffff]")


def unescape(text: str) -> str:
    """Undo every escape of ASCII or UTF-8, once; others stay, in capitals."""
    return _RUN.sub(_decoded_run, text) if "%" in text else text


def unescape_repeatedly(text: str) -> str:
    """`unescape` until nothing changes."""
    if "%2525" in text:  # one round for each 25: do them all at once
        text = _NESTED.sub("%", text)
    while (decoded := unescape(text)) != text:
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
    return escape_once(unescape_repeatedly(text))


def _decoded_run(found: re.Match[str]) -> str:
    data = bytes.fromhex(found[0].replace("%", ""))
    text = data.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text
    return _NOT_UTF8.sub(lambda byte: f"%{ord(byte[0]) - 0xDC00:02X}", text)


def _escaped(found: re.Match[bytes]) -> bytes:
    text = found[0]
    return text.upper() if len(text) > 1 else b"%%%02X" % text[0]


_CONTROLS = "".join(map(chr, range(0x21)))
_STRAY = re.compile("[\n\r\t\u0085\u2028\u2029]+")
_KNOWN = re.compile("(?:https?|ftp|mms|rtsp|wais)://", re.ASCII | re.IGNORECASE)
_SCHEME_SLASHES = re.compile(r"\A(https?://)/+")
_PARTS = re.compile(
    r"([a-zA-Z][a-zA-Z0-9+.-]*)://([^/?#]+)([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL
)
OPAQUE = ("dns:", "filedesc:", "warcinfo:")
"""What begins so has no parts."""


@dataclass(slots=True)
class HandyURL:
    """The parts of a URL, without its fragment; ``None`` where there is none."""

    scheme: str
    host: str
    port: int
    path: str
    query: str | None
    user: str | None = None
    """With the password."""


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


def tidied(text: str) -> str:
    """*text* without stray white space."""
    return _STRAY.sub("", text.strip(_CONTROLS))


def parse_url(url: str) -> HandyURL:
    """*url*, which is `tidied`, in parts; it begins with ``http://`` if not otherwise.

    Raises:
        InvalidURL: It has no host, or its port is not a number.
    """
    full = url if _KNOWN.match(url) else f"http://{url}"
    if full.startswith(("http:///", "https:///")):
        full = _SCHEME_SLASHES.sub(r"\1", full)
    found = _PARTS.fullmatch(full)
    if found is None:
        raise InvalidURL(url, "it has no host")
    scheme, authority, path, query = found.groups()
    user, at, place = authority.partition("@")
    if not at:
        user, place = None, authority
    # An IPv6 address after a user is not recognized; its port is then not a number.
    start = place.find("]") if place[:1] == "[" and not at else 0
    colon = place.find(":", max(start, 0))
    port = NO_PORT
    if colon >= 0:
        place, number = place[:colon], place[colon + 1 :]
        port = port_number(url, number) if number else NO_PORT
    return HandyURL(scheme, place, port, path, query, user)


_DOTS = re.compile(r"\.{2,}")
_DIGITS = re.compile("[0-9]+")
_OCTAL = re.compile(r"(0[0-7]*)(\.[0-7]+)?(\.[0-7]+)?(\.[0-7]+)?")
_DECIMAL = re.compile(r"([1-9][0-9]*)(\.[0-9]+)?(\.[0-9]+)?(\.[0-9]+)?")
_WWW = re.compile(r"\A(?:www[0-9]*\.)+")
_LARGEST_LONG = 2**63 - 1
_PORTS = {"http": 80, "https": 443}
_EASY = re.compile(
    r"(https?)://([A-Za-z][A-Za-z0-9]*+(?:[.-][A-Za-z0-9]++)*+)(?::([0-9]{1,5}))?+"
    r"(/[!-\"$&->@-~]*+)?+(?:\?([!-\"$&-~]*+))?+"
)
"""URLs that Google's rules leave alone, but for dot segments: most of the web's."""
PATH_SESSIONS = parts(
    (".aspx", rf"{ANY}*/(\((?:[a-z]\([0-9a-z]{{24}}\))+\)/)[^?]+\.aspx{ANY}*"),
    (".aspx", rf"{ANY}*/(\([0-9a-z]{{24}}\)/)(?:[^?]+\.aspx{ANY}*)"),
)
"""Session ids that ASP.NET puts into paths, in parentheses."""
QUERY_SESSIONS = parts(
    *(
        (word, rf"{ANY}*({expression}(?:&|\Z)){ANY}*")
        for word, expression in (
            ("jsessionid=", "jsessionid=[0-9a-zA-Z]{32}"),
            ("phpsessid=", "phpsessid=[0-9a-zA-Z]{32}"),
            ("sid=", "sid=[0-9a-zA-Z]{32}"),
            ("aspsessionid", "aspsessionid[a-zA-Z]{8}=[a-zA-Z]{24}"),
            ("cftoken=", "cfid=[^&]+&cftoken=[^&]+"),
        )
    )
)
"""Session ids of Java, PHP, ASP and ColdFusion."""


def google(url: HandyURL) -> None:
    """BasicURLCanonicalizer: minimal escapes, no stray dots, IPv4."""
    if url.user is not None:
        url.user = minimal_escape(url.user)
    if url.query is not None:
        url.query = minimal_escape(url.query)
    host = lenient_ascii(unescape_repeatedly(url.host)).strip(".")
    host = _DOTS.sub(".", host)
    url.host = ip_of(host) or escape_once(host.lower())
    url.path = escape_once(normal_path(unescape_repeatedly(url.path)))


def archive(url: HandyURL, *, massages: bool = True, strips: bool = True) -> None:
    """IAURLCanonicalizer, with one of three profiles of ``CanonicalizeRules``.

    AGGRESSIVE is the default. NON_MASSAGING leaves ``www`` in the host. ORDINARY also
    leaves user, path and query as they are.
    """
    url.scheme = url.scheme.lower()
    url.host = url.host.lower()
    if massages:
        url.host = massage_host(url.host)
    if url.port == _PORTS.get(url.scheme, 0):
        url.port = NO_PORT
    if strips:
        url.user = None
        url.path, url.query = _stripped(url.path, url.query)
    url.query = url.query or None


def _stripped(path: str, query: str | None) -> tuple[str, str | None]:
    """*path* and *query* without what does not tell pages apart.

    They are in lower case and without session ids, the path without a slash at its end
    and the query sorted.
    """
    path = path.lower()
    if ".aspx" in path:
        path = without(path, PATH_SESSIONS)
    path = path[:-1] if len(path) > 1 and path.endswith("/") else path
    if query:
        query = reorder_query(without(query, QUERY_SESSIONS).lower())
    return path, query


def key_of(text: str, *, is_ordinary: bool = False) -> str:
    """WaybackURLKeyMaker: the sort-friendly key of *text*.

    Its rules are AGGRESSIVE, or ORDINARY; see `archive`.
    """
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
            return _easy_key(easy, path, is_ordinary)
    tidy = tidied(text)
    if tidy.startswith(OPAQUE):  # what comes after "(", if there is one
        _, bracket, key = tidy.partition("(")
        return key if bracket else text
    url = parse_url(tidy)
    google(url)
    archive(url, massages=not is_ordinary, strips=not is_ordinary)
    user = "" if url.user is None else f"{url.user}@"
    port = "" if url.port == NO_PORT else f":{url.port}"
    end = "" if url.query is None else f"?{url.query}"
    return f"{user}{host_to_surt(url.host)}{port}){url.path}{end}"


def _easy_key(parts: re.Match[str], path: str, is_ordinary: bool) -> str:
    """`key_of` for a URL in which nothing has to be parsed or escaped."""
    scheme, host, given, _, query = parts.groups()
    host = host.lower()
    port = ""
    if given is not None and int(given) != _PORTS[scheme]:
        port = f":{int(given)}"
    if not is_ordinary:
        host = massage_host(host)
        path, query = _stripped(path, query)
    end = f"?{query}" if query else ""
    return f"{host_to_surt(host)}{port}){path}{end}"


def normal_path(path: str) -> str:
    """*path* without ``.``, ``..`` and empty segments; the last may be empty."""
    if "/." not in path and "//" not in path:
        return "/" + path.partition("/")[2]
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


def ip_of(host: str) -> str | None:
    """The IPv4 address that *host* means as a number, in octal or in decimal."""
    if _DIGITS.fullmatch(host):
        if len(host) > len(str(_LARGEST_LONG)) or int(host) > _LARGEST_LONG:
            return None
        return ".".join(map(str, (int(host) & 0xFFFFFFFF).to_bytes(4)))
    for pattern, base in ((_OCTAL, 8), (_DECIMAL, 10)):
        found = pattern.fullmatch(host)
        if found is not None:
            octets = [int(g.lstrip("."), base) if g else 256 for g in found.groups()]
            return None if max(octets) > 0xFF else ".".join(map(str, octets))
    return None


def massage_host(host: str) -> str:
    """*host* without ``www.`` or ``www<digits>.`` before it, however many."""
    return _WWW.sub("", host) if host.startswith("www") else host


def reorder_query(query: str) -> str:
    """Sort the arguments of *query* by name, and by value where names are equal."""
    if "&" not in query:
        return query
    arguments = [argument.partition("=") for argument in query.split("&")]
    arguments.sort()  # (name, "" or "=", value): no value before an empty one
    return "&".join(map("".join, arguments))
