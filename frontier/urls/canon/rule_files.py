r"""Rule sets of a project: TOML files.

::

    name = "mine"
    base = "heritrix"              # a named set; or steps = ["heritrix.usable"]

    [[rule]]
    site = "com,example)/shop"     # pages whose SURT begins so; or match = 'regex'
    strip = 'session=[0-9a-f]+&?'  # what to take out

    [[rule]]
    regex = '(https?://)m\.(.*)'   # all of the URL has to match; $1 is a group
    replace = '$1www.$2'

    [[rule]]
    transcode = '&q=([^&]+)'       # the first group, escaped again
    source = "ISO-8859-1"
    target = "UTF-8"

The rules come first, in their order, then the steps of the base; each is applied
once. A rule with neither ``site`` nor ``match`` applies to every URL. Replacements
are written as in Java: ``$1`` is the first group, ``\$`` a dollar sign.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote_plus

from frontier.errors import InvalidURL
from frontier.settings.patterns import LOOKED, compiled
from frontier.settings.toml_tables import TomlTables, read_bytes
from frontier.settings.values import NAME
from frontier.urls.canon.surt import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Step = Callable[[str], str]

MAX_BYTES = 1 << 20
"""The most bytes of a rule file."""
MAX_RULES = 1_000
KINDS: dict[str, tuple[str, ...]] = {
    "strip": (),
    "regex": ("replace",),
    "transcode": ("source", "target"),
}
"""What a rule may do, and the keys that each needs beside it."""
_PATTERNS = (*KINDS, "match")
_CHARSETS = ("source", "target")
_KEYS = (*_PATTERNS, "site", "replace", *_CHARSETS)
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)
_UNRESERVED = ".-*_"
"""What Java's URLEncoder leaves alone besides letters and digits."""


def read(path: Path) -> dict[str, Any]:
    """The tables of the rule file *path*, checked.

    Raises:
        InputBroken: It cannot be read, or something in it is invalid.
    """
    data, top = read_bytes(path, MAX_BYTES), ("name", "base", "steps")
    file = TomlTables(str(path), data, "rule", MAX_RULES, top=top)
    name = file.given.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        file.fail(None, "name", "needs a name of letters, digits, '.', '_' and '-'")
    if ("base" in file.given) == ("steps" in file.given):
        file.fail(None, "base", "needs either a base or steps")
    for number, rule in enumerate(file.tables):
        file.require_known(number, rule, _KEYS, "a rule")
        for key, value in rule.items():
            with file.at(number, key, f"{key} "):
                _check(key, value)
        kinds = [kind for kind in KINDS if kind in rule]
        if len(kinds) != 1:
            file.fail(number, "", f"needs one of {', '.join(KINDS)}")
        if "site" in rule and "match" in rule:
            file.fail(number, "match", "has both a site and a match")
        for key in KINDS[kinds[0]]:
            if key not in rule:
                file.fail(number, kinds[0], f"needs a {key} beside {kinds[0]}")
    return file.given


def _check(key: str, value: Any) -> None:
    """Check the *value* of *key* by itself.

    Raises:
        ValueError: It is invalid.
    """
    if not isinstance(value, str):
        raise ValueError("needs text")  # noqa: TRY004 (the file is wrong, not its reader)
    if key in _PATTERNS:
        pattern = compiled(value)
        if key == "transcode" and not pattern.groups:
            raise ValueError("needs a group: what is escaped again")
    elif key in _CHARSETS:
        try:  # as `str.encode` checks: it takes neither ``zlib`` nor ``rot13``
            is_charset = codecs.lookup(value)._is_text_encoding
        except (LookupError, ValueError):
            is_charset = False
        if not is_charset:
            raise ValueError(f"{value!r} is not a character set")


def kind_of(rule: Mapping[str, Any]) -> str:
    """Which of `KINDS` *rule* is."""
    return next(kind for kind in KINDS if kind in rule)


def step_of(rule: Mapping[str, Any]) -> Step:
    """The function of *rule*, which `read` has checked.

    It raises `InvalidURL` for a URL of more than `LOOKED` characters.
    """
    change = _change_of(rule)
    site = rule.get("site")
    match = compiled(rule["match"]) if "match" in rule else None

    def step(url: str) -> str:
        url = url.encode("utf-8", "replace").decode()
        if len(url) > LOOKED:
            raise InvalidURL(url, f"rules take no more than {LOOKED:,} characters")
        if site is not None and not _surt(url).startswith(site):
            return url
        return change(url) if match is None or match.search(url) else url

    return step


@lru_cache(maxsize=1)  # many rules ask for it in turn
def _surt(url: str) -> str:
    try:
        return key_of(url)
    except InvalidURL:
        return ""


def _change_of(rule: Mapping[str, Any]) -> Step:
    """What *rule* does where it applies."""
    pattern = compiled(rule[kind_of(rule)])
    if "strip" in rule:  # OpenWayback's UriStripper: every match is taken out
        return lambda url: str(pattern.sub("", url))
    if "regex" in rule:  # Heritrix's RegexRule: the whole URL has to match
        return lambda url: (
            expanded(rule["replace"], found)
            if (found := pattern.fullmatch(url))
            else url
        )
    return lambda url: _transcoded(url, pattern, rule["source"], rule["target"])


def _transcoded(url: str, pattern: Any, source: str, target: str) -> str:
    """OpenWayback's UriTranscoder: the first group of each match, escaped again."""
    pieces, at = [], 0
    for found in pattern.finditer(url):
        start, end = found.span(1)
        if start >= 0:
            text = unquote_plus(found[1], source, "replace")
            escaped = quote_plus(text, _UNRESERVED, target, "replace")
            pieces += [url[at:start], escaped.replace("~", "%7E")]
            at = end
    return "".join([*pieces, url[at:]])


def expanded(replacement: str, found: Any) -> str:
    """*replacement* with the groups of *found*; a missing group is empty."""

    def put(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return reference[1]
        digits, groups = reference[2], found.re.groups
        # As Java: as many digits as there are groups for.
        fitting = (n for n in range(len(digits), 1, -1) if int(digits[:n]) <= groups)
        length = next(fitting, 1)
        number = int(digits[:length])
        group = found[number] if number <= groups else None
        return (group or "") + digits[length:]

    return _REFERENCE.sub(put, replacement)
