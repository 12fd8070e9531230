"""What is wrong with a partition's keys: types and values that nobody here writes.

Looking changes nothing, and a value is read only where the type is right: so it
works on a partition however damaged. What a value means, and whether it is true, is
not asked here; `frontier.node.repair` counts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from frontier.errors import CodecError
from frontier.queue.priority import readable
from frontier.queue.reserve import read_reserved
from frontier.seen.config import SeenLayout
from frontier.store.calls import Call
from frontier.store.damage import wrong_type

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from frontier.seen.config import SeenConfig
    from frontier.store.keys import PartitionKeys

NUMBERS = ("ready", "waiting", "pushed", "seq", "acked", "dead", "skipped")
"""Fields of `counts` that are numbers."""
LAYOUT = ("buckets", "count", "blooms", "last", "era")
DIGITS = 15
"""Of any number in the store: Lua's are exact up to 2^53."""
_LAST_PUSH = re.compile(rb"[0-9]{1,15} [0-9]{1,15} [A-Za-z]*")
MAX_BUCKETS = 10_000
"""Buckets of a seen-set that are looked at."""
MAX_NAMES = 1_000
"""Queues, and buckets of what waits, that are looked at."""


def is_number(value: bytes) -> bool:
    """Whether *value* is a number as scripts write them: digits, and not too many."""
    return 0 < len(value) <= DIGITS and value.isdigit()


def is_last_push(value: bytes) -> bool:
    """Whether *value* may be of the last push of a process."""
    return _LAST_PUSH.fullmatch(value) is not None


def look(
    keys: PartitionKeys, config: SeenConfig | None = None
) -> Generator[list[Call], list[Any], list[tuple[str, str]]]:
    """Yield calls, and be sent their replies; return keys' faults.

    A fault is what follows the partition's tag, and the reason. With *config* the
    layout of the seen-set is compared with it.
    """
    fixed = (
        *("lease", "counts", "queues", "reserved", "started", "next_allowed"),
        *("back_off", "spent", "dead", "seen", "claimed", "pushers", "due"),
    )
    names = {what: str(getattr(keys, what)) for what in fixed}
    types = yield [Call.command("TYPE", name) for name in names.values()]
    faults = []
    right = set()
    for (what, name), kind in zip(names.items(), types, strict=True):
        if fault := wrong_type(name, kind):
            faults.append((what, fault))
        elif kind not in {b"none", "none"}:
            right.add(what)
    reads = {what: call for what, call in _reads(keys).items() if what in right}
    replies = yield list(reads.values())
    found: dict[str, Any] = dict(zip(reads, replies, strict=True))
    faults += _of_values(keys, found, config)
    tiers = _tiers(keys, found.get("seen", ()), faults)
    queues = [queue for queue in found.get("queues", ()) if readable(queue)]
    lists = [keys.ready(queue) for queue in queues]
    buckets = filter(is_number, found.get("due", ()))
    lists += [keys.waiting(bucket.decode()) for bucket in buckets]
    lists += tiers
    kinds = yield [Call.command("TYPE", name) for name in lists]
    for name, kind in zip(lists, kinds, strict=True):
        if fault := wrong_type(name, kind):
            faults.append((name.removeprefix(keys.tag + ":"), fault))
    return faults


def _reads(keys: PartitionKeys) -> dict[str, Call]:
    """The calls that read the values of *keys* that are looked at."""
    return {
        "lease": Call.command("HGET", keys.lease, "token"),
        "counts": Call.command("HGETALL", keys.counts),
        "reserved": Call.command("HGETALL", keys.reserved),
        "queues": Call.command("ZRANGE", keys.queues, 0, MAX_NAMES - 1),
        "due": Call.command("ZRANGE", keys.due, 0, MAX_NAMES - 1),
        "seen": Call.command("HMGET", keys.seen, *LAYOUT),
        "spent": Call.command("HGETALL", keys.spent),
        "pushers": Call.command("HGETALL", keys.pushers),
    }


def _of_values(
    keys: PartitionKeys, found: Mapping[str, Any], config: SeenConfig | None
) -> list[tuple[str, str]]:
    """What is wrong with the values that were *found*, all of the right type."""
    faults = []
    if "lease" in found and not is_number(found["lease"] or b""):
        faults.append(("lease", "it is not a token"))
    faults += _of_counts(keys, found.get("counts", {}))
    faults += _of_reserved(found.get("reserved", {}))
    faults += _of_spent(found.get("spent", {}))
    if not all(map(is_last_push, found.get("pushers", {}).values())):
        faults.append(("pushers", "an entry of it is not a push"))
    return faults + _of_seen(found.get("seen", ()), config)


def _tiers(
    keys: PartitionKeys, values: Sequence[bytes | None], faults: Sequence[Any]
) -> list[str]:
    """The keys of the seen-set, if its layout is right; no more than `MAX_BUCKETS`."""
    if not values or any(what == "seen" for what, _ in faults):
        return []
    buckets, _, blooms, _, era = (int(value or 0) for value in values)
    names = [keys.bloom(number) for number in range(blooms)]
    return names + [keys.bucket(era, n) for n in range(min(buckets or 1, MAX_BUCKETS))]


def _of_counts(
    keys: PartitionKeys, counts: Mapping[bytes, bytes]
) -> list[tuple[str, str]]:
    faults = [
        ("counts", f"its {name} is not a number")
        for name in NUMBERS
        if not is_number(counts.get(name.encode(), b"0"))
    ]
    if counts and counts.get(b"born", b"") != keys.born.encode():
        faults.append(("counts", "its born is not the mark of the crawl"))
    return faults


def _of_reserved(reserved: Mapping[bytes, bytes]) -> list[tuple[str, str]]:
    for number, value in reserved.items():
        try:
            read_reserved(number, value)
        except CodecError as error:
            return [("reserved", str(error))]
    return []


def _of_spent(spent: Mapping[bytes, bytes]) -> list[tuple[str, str]]:
    bad = [field for field, value in spent.items() if not is_number(value)]
    return [("spent", f"its {bad[0][:100]!r} is not a number")] if bad else []


def _of_seen(
    values: Sequence[bytes | None], config: SeenConfig | None
) -> list[tuple[str, str]]:
    faults = [
        ("seen", f"its {name} is not a number")
        for name, value in zip(LAYOUT, values, strict=False)
        if value is not None and not is_number(value)
    ]
    if values and not faults and config is not None:
        layout = SeenLayout(*(int(value or 0) for value in values))
        if not config.allows(layout):
            faults.append(("seen", "its numbers do not fit each other"))
    return faults
