"""Heritrix's rules, each like its class in ``org.archive.modules.canonicalize``.

Every step takes a URL and returns it, changed or not. Steps are not idempotent:
a rule set applies each once.
"""

from __future__ import annotations

import re
from collections import deque

ANY = "[^\n\r\u0085\u2028\u2029]"
"""What ``.`` matches in Java: all but Unicode's line terminators."""
FLAGS = re.ASCII | re.IGNORECASE
"""Java's CASE_INSENSITIVE folds ASCII only."""

_USERINFO = re.compile(rf"((?:https?|ftps?)://)[^/]+@({ANY}*)", FLAGS)
_WWW = re.compile(rf"(https?://)(www\.)[^/]*+/{ANY}++", FLAGS)
_WWWN = re.compile(rf"(https?://)(www[0-9]*+\.)[^/]*+/{ANY}++", FLAGS)
_TAIL = rf"(?:&({ANY}*))?"
# The originals' expressions begin with (.+) and end with (?:&(.*))?, so that they
# find the last id that is followed by & or nothing. These match just such an id, and
# `_without_last` takes the last.
_BASE = re.compile(r"(?:jsessionid|phpsessid)=[0-9a-zA-Z]{32}(?:&|\Z)", FLAGS)
_SID = re.compile(r"sid=[0-9a-zA-Z]{32}(?:&|\Z)", FLAGS)
_ASP = re.compile(r"aspsessionid[a-zA-Z]{8}=[a-zA-Z]{24}(?:&|\Z)", FLAGS)
# For text in lower case, whose letters need no folding.
_LOW_WWWN, _LOW_BASE, _LOW_SID, _LOW_ASP = (
    re.compile(one.pattern) for one in (_WWWN, _BASE, _SID, _ASP)
)
_BREAK = re.compile("[\n\r\u0085\u2028\u2029]")
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
    return _without_www(url, _WWW)


def strip_wwwn(url: str) -> str:
    """StripWWWNRule: one ``www.`` or ``www<digits>.``, but not on slash pages."""
    return _without_www(url, _WWWN)


def strip_session_ids(url: str) -> str:
    """StripSessionIDs: ids of Java, PHP and ASP, if before ``&`` or at the end."""
    low = url.lower()
    if "sid=" not in low and "sessionid" not in low:
        return url
    return _without_ids(url, _BASE, _SID, _ASP)


def strip_session_cfids(url: str) -> str:
    """StripSessionCFIDs: ColdFusion's pair of ids."""
    return _stripped(url, _CF) if "cftoken=" in url.lower() else url


def fixup_query(url: str) -> str:
    """FixupQueryString: a bare ``?`` at the end, or a query's first or last ``&``."""
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
    """StripExtraSlashes: all but one of a run of slashes, in the query as well."""
    found = _HTTP.fullmatch(url)
    return url if found is None else found[1] + _SLASHES.sub("/", found[2])


def default(url: str) -> str:
    """The rules that Heritrix has without configuration, in their order.

    They are `lowercase`, `strip_userinfo`, `strip_wwwn`, `strip_session_ids`,
    `strip_session_cfids` and `fixup_query`; one that has nothing to do is not called.
    """
    url = url.lower()
    if "@" in url:
        url = strip_userinfo(url)
    if "//www" in url:
        url = _without_www(url, _LOW_WWWN)
    if "sid=" in url or "sessionid" in url:
        url = _without_ids(url, _LOW_BASE, _LOW_SID, _LOW_ASP)
    if "cftoken=" in url:
        url = strip_session_cfids(url)
    return fixup_query(url) if url.endswith(("?", "&")) or "?&" in url else url


def _without_www(url: str, pattern: re.Pattern[str]) -> str:
    if "//www" not in url and "//www" not in url.lower():
        return url
    found = pattern.fullmatch(url)
    return url if found is None else found[1] + url[found.end(2) :]


def _without_ids(
    url: str, base: re.Pattern[str], sid: re.Pattern[str], asp: re.Pattern[str]
) -> str:
    if _BREAK.search(url):
        return url
    url = _without_last(url, base, "jsessionid=", "phpsessid=")
    url = _without_last(url, sid, "sid=")
    return _without_last(url, asp, "aspsessionid")


def _without_last(url: str, pattern: re.Pattern[str], *words: str) -> str:
    """*url* without the last match of *pattern* after its first character.

    Every match begins with one of *words*, in upper or lower case.
    """
    low = url.lower()
    starts = [at for word in words if (at := low.find(word)) >= 0]
    if not starts:
        return url
    # Text that is not ASCII may change its length in lower case.
    start = max(min(starts), 1) if low.isascii() else 1
    found = deque(pattern.finditer(url, start), 1)
    return url[: found[0].start()] + url[found[0].end() :] if found else url


def _stripped(url: str, pattern: re.Pattern[str]) -> str:
    """The two groups of *pattern*, if all of *url* matches."""
    found = pattern.fullmatch(url)
    if found is None:
        return url
    return (found[1] or "") + (found[2] or "")
