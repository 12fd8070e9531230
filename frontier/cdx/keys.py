"""The key under which an index files a URL; the only place that makes one.

pywb looks captures up by the keys of a package that is not webarchive-commons,
after whose rules it was made, and differs from them: in how a URL is taken apart,
in ``www`` before the host, which goes once, and in dots of host names. What is
different is here, the rules are those of `frontier.urls.canon`.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from frontier.errors import InvalidURL
from frontier.urls.canon.escapes import escape_once, unescape_repeatedly
from frontier.urls.canon.handyurl import NO_PORT, HandyURL
from frontier.urls.canon.surt import NON_MASSAGING, archive, ip_of, key_of, normal_path

if TYPE_CHECKING:
    from frontier.urls.canon.rulesets import RuleSet

_SPACES = re.compile(r"\s+")
_AROUND = " \t\n\r\x0b\x0c"
_STRAY = str.maketrans("", "", "\n\r\t")
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_DOUBLED = re.compile(r"(https?://)+")
_PARTS = re.compile(
    r"([^:]+):(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#.*)?", re.DOTALL
)
_WWW = re.compile(r"www[0-9]*\.", re.ASCII)
_EASY = re.compile(r"https?://[a-z][a-z0-9-]*+(?:\.[a-z0-9-]++)*+/[!-\"$&->@-~]*")
"""What `key_of` files as pywb does, unless ``www`` comes twice: most URLs."""
_LARGEST_PORT = 65535


def sort_key(url: str) -> str:
    """Return the SURT key of *url*: ``com,example)/path``, without whitespace.

    It is pywb's. A URL that cannot be canonicalized is its own key, as there. Only
    hosts that may be numbers differ: pywb asks the name server about them.
    """
    try:
        key = _key(url)
    except InvalidURL:
        key = url
    return _SPACES.sub("%20", key) or "-"


def key_under(rules: RuleSet, url: str) -> str:
    """The key of *url* in an index under *rules*: what they merge has one key.

    The form itself where it is a key, else the SURT of the form, which is pywb's
    unless the rules do more than SURT does. Of a URL that they refuse, `sort_key`.
    """
    try:
        form = rules.apply(url)
    except InvalidURL:
        return sort_key(url)
    return _SPACES.sub("%20", form) or "-" if rules.makes_keys else sort_key(form)


def _key(text: str) -> str:
    if not text or text.startswith("filedesc"):
        return text
    if _EASY.fullmatch(text) and ".www" not in text:
        return key_of(text)
    url = _parsed(text)
    scheme, host = url.scheme, _host(url.host)
    path = unescape_repeatedly(url.path)
    url.path = _escaped(normal_path(path) if host else path)
    if url.query is not None:
        url.query = _escaped(unescape_repeatedly(url.query))
    archive(url, NON_MASSAGING)
    port = "" if url.port == NO_PORT else f":{url.port}"
    before = f"{','.join(reversed(host.split('.')))}{port})" if host else f"{scheme}:"
    if url.query is None:
        return before + url.path
    return f"{before}{url.path or '/'}?{url.query}"


def _parsed(text: str) -> HandyURL:
    """*text* in parts, without user and fragment.

    Raises:
        InvalidURL: Its port is none.
    """
    url = text.strip(_AROUND).translate(_STRAY)
    if not _SCHEME.match(url):
        url = f"http://{url}"
    url = _DOUBLED.sub(r"\1", url, count=1) if url.startswith("http") else url
    found = _PARTS.fullmatch(url)
    if found is None:
        raise InvalidURL(text, "it has no parts of a URL")
    scheme, authority, path, query = found.groups()
    host, port = _place(text, (authority or "").rstrip(":"))
    if not host and path and scheme.startswith("http"):  # too many slashes, or few
        host, _, path = path.lstrip("/").partition("/")
        path = f"/{path}"
    return HandyURL(scheme, host=host, port=port, path=path, query=query or None)


def _place(text: str, authority: str) -> tuple[str, int]:
    """Host and port of *authority*, whatever user is before it."""
    place = authority.rpartition("@")[2]
    before, bracket, rest = place.partition("[")
    if bracket and not before:
        host, _, rest = rest.partition("]")
        port = rest.partition(":")[2]
    else:
        host, _, port = place.partition(":")
    if not port:
        return host, NO_PORT
    if not (port.isascii() and port.isdigit()) or int(port) > _LARGEST_PORT:
        raise InvalidURL(text, "its port is no number")
    return host, int(port) or NO_PORT


def _host(name: str) -> str:
    host = unescape_repeatedly(name)
    data = unquote_to_bytes(host)
    if not data.isascii():
        with suppress(UnicodeError):  # else it stays as it is, escaped
            host = data.decode("utf-8", "ignore").encode("idna").decode("ascii")
    host = host.replace("..", ".").strip(".")
    host = ip_of(host) or _escaped(host).lower()
    found = _WWW.match(host)
    return host[found.end() :] if found else host


def _escaped(text: str) -> str:
    return escape_once(text).replace("\x7f", "%7F")
