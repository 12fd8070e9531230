"""Heritrix's rules, each as its class in ``org.archive.modules.canonicalize``.

Every step takes a URL and returns it, changed or not. They are not idempotent:
a rule set applies each once.
"""

from __future__ import annotations

import re

ANY = "[^\n\r\u0085\u2028\u2029]"
"""What ``.`` means to Java: no line terminator of Unicode."""
FLAGS = re.ASCII | re.IGNORECASE
"""Java's CASE_INSENSITIVE folds ASCII only."""

_USERINFO = re.compile(rf"((?:https?|ftps?)://)[^/]+@({ANY}*)", FLAGS)
_WWW = re.compile(rf"(https?://)www\.([^/]*/{ANY}+)", FLAGS)
_WWWN = re.compile(rf"(https?://)www[0-9]*\.([^/]*/{ANY}+)", FLAGS)
_TAIL = rf"(?:&({ANY}*))?"
_BASE = re.compile(rf"({ANY}+)(?:jsessionid|phpsessid)=[0-9a-zA-Z]{{32}}{_TAIL}", FLAGS)
_SID = re.compile(rf"({ANY}+)sid=[0-9a-zA-Z]{{32}}{_TAIL}", FLAGS)
_ASP = re.compile(rf"({ANY}+)aspsessionid[a-zA-Z]{{8}}=[a-zA-Z]{{24}}{_TAIL}", FLAGS)
_CF = re.compile(rf"({ANY}+)cfid=[^&]+&cftoken=[^&]+(?:jsession=[^&]+)?{_TAIL}", FLAGS)
_HTTP = re.compile(rf"(https?://)({ANY}*)")
_SLASHES = re.compile("//+")


def lowercase(url: str) -> str:
    """LowercaseRule: the whole URL, path and query too."""
    return url.lower()


def strip_userinfo(url: str) -> str:
    """StripUserinfoRule: user and password of http, https, ftp and ftps."""
    return _stripped(url, _USERINFO) if "@" in url else url


def strip_www(url: str) -> str:
    """StripWWWRule: one ``www.``, but not on slash pages."""
    return _stripped(url, _WWW) if _has_www(url) else url


def strip_wwwn(url: str) -> str:
    """StripWWWNRule: one ``www.`` or ``www<digits>.``, but not on slash pages."""
    return _stripped(url, _WWWN) if _has_www(url) else url


def strip_session_ids(url: str) -> str:
    """StripSessionIDs: of Java, PHP and ASP, each only before ``&`` or the end."""
    low = url.lower()
    if "sid=" not in low and "sessionid" not in low:
        return url
    if "sessionid=" in low or "phpsessid=" in low:
        url = _stripped(url, _BASE)
    if "sid=" in low:
        url = _stripped(url, _SID)
    if "aspsessionid" in low:
        url = _stripped(url, _ASP)
    return url


def strip_session_cfids(url: str) -> str:
    """StripSessionCFIDs: ColdFusion's pair of ids."""
    return _stripped(url, _CF) if "cftoken=" in url.lower() else url


def fixup_query(url: str) -> str:
    """FixupQueryString: the last ``?`` without a query, its first or last ``&``."""
    at = url.rfind("?")
    if at <= 0:
        return url
    if at == len(url) - 1:
        return url[:-1]
    if url[at + 1] == "&":
        if len(url) == at + 2:
            return url[:-2]
        return url[: at + 1] + url[at + 2 :]
    return url[:-1] if url[-1] == "&" else url


def strip_extra_slashes(url: str) -> str:
    """StripExtraSlashes: several slashes in a row, in the query as well."""
    found = _HTTP.fullmatch(url)
    return url if found is None else found[1] + _SLASHES.sub("/", found[2])


def _has_www(url: str) -> bool:
    return "//www" in url or "//www" in url.lower()


def _stripped(url: str, pattern: re.Pattern[str]) -> str:
    """The two groups of *pattern*, if all of *url* matches."""
    found = pattern.fullmatch(url)
    if found is None:
        return url
    return (found[1] or "") + (found[2] or "")
