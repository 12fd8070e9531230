"""Operators' regular expressions, by RE2, which follows all paths of one at once.

So the time of a match is in proportion to the length of the text, whatever the
expression. docs/crawls.md lists where RE2 differs from `re`.
"""

from __future__ import annotations

from typing import Any

LOOKED = 10_000
"""Characters of a URL in which patterns are looked for; servers accept fewer."""
PATTERN_MEMORY = 1 << 20
"""Bytes that RE2 may use for one pattern; beyond that it drops what it remembers."""


def compiled(pattern: str) -> Any:
    """*pattern*, compiled by RE2.

    Raises:
        ValueError: RE2 does not accept it.
    """
    import re2  # takes 10 ms, and few crawls have patterns

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise ValueError(
            f"{pattern[:200]!r} is not a regular expression of RE2: {reason} "
            "(docs/crawls.md has the differences from `re`)"
        ) from None
