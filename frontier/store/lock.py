"""Locks in the store: one holder at a time, who renews the lock or loses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontier.store.calls import Call


def hold_calls(key: str, holder: str, ttl_ms: int) -> list[Call]:
    """The calls that take the lock *key* for *ttl_ms*, or renew it; see `is_held`."""
    return [
        Call.command("SET", key, holder, "NX", "PX", ttl_ms),
        Call.txn([(("GET", key), holder)], [("PEXPIRE", key, ttl_ms)]),
    ]


def is_held(replies: Sequence[Any]) -> bool:
    """Whether the holder has the lock, given the *replies* to `hold_calls`."""
    return replies[1] is not None


def release_call(key: str, holder: str) -> Call:
    """The call that releases the lock *key*, if *holder* has it."""
    return Call.txn([(("GET", key), holder)], [("DEL", key)])
