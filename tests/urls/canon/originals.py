"""One call for every rule set, and for the functions of the originals."""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Any

import frontier.urls.canon.openwayback as openwayback
import frontier.urls.canon.regex_rules as configured
import frontier.urls.canon.surt as surt
from frontier.urls.canon.rulesets import NAMED, RuleSet, named
from frontier.urls.canon.surt import parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_FUNCTIONS: dict[str, Callable[[str], str | None]] = {
    "commons.alphaReorderQuery": surt.reorder_query,
    "commons.attemptIPFormats": surt.ip_of,
    "commons.decode": surt.unescape,
    "commons.unescapeRepeatedly": surt.unescape_repeatedly,
    "commons.massageHost": surt.massage_host,
    "commons.stripPathSessionID": surt.strip_path_session_id,
    "commons.stripQuerySessionID": surt.strip_query_session_id,
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
    "commons.basic(google)": ("commons.google",),
    "commons.aggressive": ("commons.aggressive",),
    "commons.ordinary": ("commons.ordinary",),
    "commons.nonmassaging": ("commons.non-massaging",),
    "commons.surtkey": ("commons.key",),
    "urlcanon.whatwg": ("whatwg.standard",),
}
"""Steps of ours, by the names that the vectors have for them."""

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
        made = parse_url(url)
        surt.archive(made, surt.AGGRESSIVE)
        return str(made)
    if rules == "heritrix.RegexRule":
        config = config or _EXAMPLE
    if config is not None:
        return _configured(url, rules, config)
    if rules in _RULE_SETS:
        return RuleSet(rules, tuple(_RULE_SETS[rules]), "").apply(url)
    return named(rules).apply(url)


def _configured(url: str, rules: str, config: Mapping[str, Any]) -> str:
    if rules == "heritrix.RegexRule":
        return configured.regex(re.compile(config["regex"]), config["format"])(url)
    if rules == "commons.RewriteRule":
        step = configured.rewrite(
            re.compile(config["regex"]), config["replace"], config["startsWith"]
        )
        return step(surt.key_of(url))
    steps = []
    if re.search(config["pattern"], url):
        steps = [_processor(one) for one in config["processors"]]
    return openwayback.key(url, lambda text: reduce(lambda u, f: f(u), steps, text))


def _processor(config: Mapping[str, str]) -> Callable[[str], str]:
    if "strip" in config:
        return configured.strip(re.compile(config["strip"]))
    pattern = re.compile(config["transcode"])
    return configured.transcode(pattern, config["source"], config["target"])
