"""The key under which an index files a URL; the only place that makes one."""

from __future__ import annotations

import re

from surt import surt

_SPACES = re.compile(r"\s+")


def sort_key(url: str) -> str:
    """Return the SURT key of *url*: ``com,example)/path``, without whitespace.

    A URL that cannot be canonicalized is its own key, as in pywb.
    """
    try:
        key = surt(url)
    except Exception:  # noqa: BLE001 - the library raises what it likes
        key = url
    return _SPACES.sub("%20", str(key)) or "-"
