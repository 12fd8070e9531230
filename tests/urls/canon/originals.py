"""One call for every rule set, and for the functions of the originals."""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Any

import frontier.urls.canon.openwayback as openwayback
import frontier.urls.canon.surt as surt
from frontier.urls.canon.heritrix import without
from frontier.urls.canon.hosts import NO_PORT
from frontier.urls.canon.rule_files import expanded, step_of
from frontier.urls.canon.rulesets import NAMED, RuleSet, named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FUNCTIONS: dict[str, Callable[[str], str | None]] = {
    "commons.alphaReorderQuery": surt.reorder_query,
    "commons.attemptIPFormats": surt.ip_of,
    "commons.decode": surt.unescape,
    "commons.unescapeRepeatedly": surt.unescape_repeatedly,
    "commons.massageHost": surt.massage_host,
    "commons.stripPathSessionID": lambda text: without(text, surt.PATH_SESSIONS),
    "commons.stripQuerySessionID": lambda text: without(text, surt.QUERY_SESSIONS),
}
"""Parts of the originals that the vectors test by themselves."""

_, *_DEFAULT = NAMED["heritrix"].steps
_RULE_SETS = {
    "heritrix.default": _DEFAULT,
    "heritrix.UsableURI+default": ("heritrix.usable", *_DEFAULT),
    "heritrix.LowercaseRule": ("heritrix.lowercase",),
    "heritrix.StripUserinfoRule": ("heritrix.strip-userinfo",),
    "heritrix.StripWWWRule": ("heritrix.strip-www",),
    "heritrix.StripWWWNRule": ("heritrix.strip-wwwn",),
    "heritrix.StripSessionIDs": ("heritrix.strip-session-ids",),
    "heritrix.StripSessionCFIDs": ("heritrix.strip-session-cfids",),
    "heritrix.FixupQueryString": ("heritrix.fixup-query",),
    "heritrix.StripExtraSlashes": ("heritrix.strip-extra-slashes",),
    "openwayback.aggressive.canonicalize": ("openwayback.canonicalize",),
    "openwayback.aggressive.urlStringToKey": ("openwayback.key",),
    "commons.UsableURI": ("heritrix.usable",),
    "commons.surtkey": ("commons.key",),
    "urlcanon.whatwg": ("whatwg.standard",),
}
"""Steps of ours, by the names that the vectors have for them."""

_PROFILES = {
    "commons.basic(google)": None,
    "commons.aggressive": {},
    "commons.ordinary": {"massages": False, "strips": False},
    "commons.nonmassaging": {"massages": False},
}
"""Which of the Internet Archive's rules come after Google's."""

_EXAMPLE = {
    "regex": r"^(.+)(?:;\$sessionid\$[A-Z0-9]{32})(\?.*)+$",
    "format": "$1$2",
}
"""Of Heritrix's manual; its own tests of the rule leave it out."""


def apply(
    url: str, rules: str = "scrapy", *, config: Mapping[str, Any] | None = None
) -> str | None:
    """The form of *url* under *rules*: a name of ours, or one of the vectors'.

    *config* is for the vectors' rules that take one.

    Raises:
        InvalidURL: The original refuses it.
        ConfigurationError: There are no such rules.
    """
    if rules in _FUNCTIONS:
        return _FUNCTIONS[rules](url)
    if rules.startswith("commons.ia("):
        return _of_commons(url, {}, is_google=False)
    if rules in _PROFILES:
        return _of_commons(url, _PROFILES[rules])
    if rules == "heritrix.RegexRule":
        config = config or _EXAMPLE
    if config is not None:
        return _configured(url, rules, config)
    if rules in _RULE_SETS:
        return RuleSet(rules, _RULE_SETS[rules]).apply(url)
    return named(rules).apply(url)


def _of_commons(
    url: str, profile: Mapping[str, bool] | None, *, is_google: bool = True
) -> str:
    tidied, fragment = surt.tidied(url), ""
    if tidied.startswith(surt.OPAQUE):
        return tidied
    made = surt.parse_url(tidied)
    if is_google:
        surt.google(made)
    else:
        fragment = "".join(tidied.partition("#")[1:])
    if profile is not None:
        surt.archive(made, **profile)
    user = "" if made.user is None else f"{made.user}@"
    port = "" if made.port == NO_PORT else f":{made.port}"
    query = "" if made.query is None else f"?{made.query}"
    path = made.path or "/" * bool(query or fragment)
    return f"{made.scheme}://{user}{made.host}{port}{path}{query}{fragment}"


def _configured(url: str, rules: str, config: Mapping[str, Any]) -> str:
    if rules == "heritrix.RegexRule":
        rule = {"regex": config["regex"], "replace": config["format"]}
        return step_of(rule)(url)
    if rules == "commons.RewriteRule":
        key, pattern = surt.key_of(url), re.compile(config["regex"])
        if not key.startswith(config["startsWith"]) or not pattern.fullmatch(key):
            return key
        return pattern.sub(lambda found: expanded(config["replace"], found), key)
    steps = []
    if re.search(config["pattern"], url):
        steps = map(step_of, config["processors"])
    return openwayback.key(url, lambda text: reduce(lambda u, f: f(u), steps, text))
