"""Heritrix's rules, each like its class in ``org.archive.modules.canonicalize``.

Every step takes a URL and returns it, changed or not. Steps are not idempotent:
a rule set applies each once.
"""

from __future__ import annotations

import re

ANY = "[^\n\r\u0085\u2028\u2029]"
"""What ``.`` matches in Java: all but Unicode's line terminators."""
FLAGS = re.ASCII | re.IGNORECASE
"""Java's CASE_INSENSITIVE folds ASCII only."""
Part = tuple[str, re.Pattern[str]]
"""What `without` leaves out: the first group of a pattern for a whole text. Every text
that the pattern matches has the word, in some case."""


def parts(*given: tuple[str, str]) -> tuple[Part, ...]:
    """Words and the patterns that need them, compiled."""
    return tuple((word, re.compile(pattern, FLAGS)) for word, pattern in given)


_USERINFO = parts(("@", rf"(?:https?|ftps?)://([^/]+@){ANY}*"))
_WWW = parts(("//www", rf"https?://(www\.)[^/]*+/{ANY}++"))
_WWWN = parts(("//www", rf"https?://(www[0-9]*+\.)[^/]*+/{ANY}++"))
_IDS = parts(
    ("sess", rf"{ANY}+((?:jsessionid|phpsessid)=[0-9a-zA-Z]{{32}}(?:&|\Z)){ANY}*"),
    ("sid=", rf"{ANY}+(sid=[0-9a-zA-Z]{{32}}(?:&|\Z)){ANY}*"),
    (
        "aspsessionid",
        rf"{ANY}+(aspsessionid[a-zA-Z]{{8}}=[a-zA-Z]{{24}}(?:&|\Z)){ANY}*",
    ),
)
_CF = parts(
    (
        "cftoken=",
        rf"{ANY}+(cfid=[^&]+&cftoken=[^&]+(?:jsession=[^&]+)?(?:&|\Z)){ANY}*",
    )
)
_DEFAULT = (*_USERINFO, *_WWWN, *_IDS, *_CF)
_HTTP = re.compile(rf"(https?://)({ANY}*)")
_SLASHES = re.compile("//+")


def without(text: str, parts: tuple[Part, ...]) -> str:
    """*text* without *parts*, one after the other."""
    low = text.lower()
    for word, pattern in parts:
        if word in low and (found := pattern.fullmatch(text)) is not None:
            text = text[: found.start(1)] + text[found.end(1) :]
            low = text.lower()
    return text


def lowercase(url: str) -> str:
    """LowercaseRule: the whole URL, path and query too."""
    return url.lower()


def strip_userinfo(url: str) -> str:
    """StripUserinfoRule: user and password of http, https, ftp and ftps."""
    return without(url, _USERINFO)


def strip_www(url: str) -> str:
    """StripWWWRule: one ``www.``, but not on slash pages."""
    return without(url, _WWW)


def strip_wwwn(url: str) -> str:
    """StripWWWNRule: one ``www.`` or ``www<digits>.``, but not on slash pages."""
    return without(url, _WWWN)


def strip_session_ids(url: str) -> str:
    """StripSessionIDs: ids of Java, PHP and ASP, if before ``&`` or at the end."""
    return without(url, _IDS)


def strip_session_cfids(url: str) -> str:
    """StripSessionCFIDs: ColdFusion's pair of ids."""
    return without(url, _CF)


def fixup_query(url: str) -> str:
    """FixupQueryString: a bare ``?`` at the end, or a query's first or last ``&``."""
    at = url.rfind("?")
    if at <= 0:
        return url
    if url[at:] in ("?", "?&"):
        return url[:at]
    if url[at + 1] == "&":
        return url[: at + 1] + url[at + 2 :]
    return url[:-1] if url[-1] == "&" else url


def strip_extra_slashes(url: str) -> str:
    """StripExtraSlashes: all but one of a run of slashes, in the query as well."""
    found = _HTTP.fullmatch(url)
    return url if found is None else found[1] + _SLASHES.sub("/", found[2])


def default(url: str) -> str:
    """The rules that Heritrix has without configuration, at once.

    They are `lowercase`, `strip_userinfo`, `strip_wwwn`, `strip_session_ids`,
    `strip_session_cfids` and `fixup_query`, in this order.
    """
    return fixup_query(without(url.lower(), _DEFAULT))
