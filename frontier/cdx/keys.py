"""The key under which an index files a URL; the only place that makes one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from surt import surt

from frontier.canon.surt import key_of
from frontier.errors import InvalidURL

if TYPE_CHECKING:
    from frontier.canon.rulesets import RuleSet

_NUMBER = re.compile(r"\s*(?:[a-z]+://)?(?:[^/@]*@)?[0-9%]", re.ASCII | re.IGNORECASE)
_SPACES = re.compile(r"\s+")


def sort_key(url: str) -> str:
    """Return the SURT key of *url*: ``com,example)/path``, without whitespace.

    A URL that cannot be canonicalized is its own key, as in pywb. Hosts that may be
    numbers are not the package's: it asks the name server about them, and waits.
    """
    try:
        key = key_of(url) if _NUMBER.match(url) else surt(url)
    except Exception:  # noqa: BLE001 - the library raises what it likes
        key = url
    return _SPACES.sub("%20", str(key)) or "-"


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
