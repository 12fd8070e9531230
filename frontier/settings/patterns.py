"""Regular expressions of operators, by RE2, which follows all ways of one at once.

So what one takes is in proportion to the text in which it is looked for, whatever the
expression is. docs/crawls.md lists where RE2 differs from `re`.
"""

from __future__ import annotations

from typing import Any

import re2

LOOKED = 10_000
"""Characters of a URL that patterns are looked for in; servers take fewer."""
PATTERN_MEMORY = 1 << 20
"""Bytes that RE2 may take for one pattern; what it remembers beyond, it forgets."""


def compiled(pattern: str) -> Any:
    """*pattern* by RE2.

    Raises:
        ValueError: It does not take it.
    """
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
