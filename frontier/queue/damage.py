"""What values of a partition's keys are such as scripts write them."""

from __future__ import annotations

import re

DIGITS = 15
"""Of any number in the store: Lua's are exact up to 2^53."""
_LAST_PUSH = re.compile(rb"[0-9]{1,15} [0-9]{1,15} [A-Za-z]*")


def is_number(value: bytes) -> bool:
    """Whether *value* is a number as scripts write them: digits, and not too many."""
    return 0 < len(value) <= DIGITS and value.isdigit()


def is_last_push(value: bytes) -> bool:
    """Whether *value* may be of the last push of a process."""
    return _LAST_PUSH.fullmatch(value) is not None
