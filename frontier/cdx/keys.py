"""The key under which an index files a URL; the only place that makes one."""

from __future__ import annotations

import re

from surt import surt

from frontier.canon.surt import key_of

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
