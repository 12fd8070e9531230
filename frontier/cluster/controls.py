"""Live control: what operators want of a crawl while it runs, who wanted it, and when.

A crawl can be paused, hosts and patterns excluded, and some settings changed, whether
nodes are running or not.

What always holds:

1.  What is wanted is in the store, and one script changes it, its version and the log:
    a node that joins later, and all nodes after a restart, find the same.
2.  A heartbeat brings only the version. A node reads the rest when it hears of a
    version that it does not know.
3.  Nothing that the store says is trusted. An entry that this version does not write
    is left out, and named; the crawl goes on without it.
4.  The log keeps the last `KEPT` entries. Times are the server's.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from dataclasses import field
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError, CrawlClosed, KeyDamaged, UnknownCrawl
from frontier.model import frozen
from frontier.settings.live import LIVE, QUOTAS, value_of
from frontier.store.client import Argument, BlockingStore, Call
from frontier.urls.exclusions import HOST, Exclusions, Rule, rule_of
from frontier.urls.partition import host_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.keys import CrawlKeys

PAUSED, RESUMED = "paused", "resumed"
EXCLUDED, INCLUDED, SKIPPED = "excluded", "included", "skipped"
SET, UNSET = "set", "unset"
RETRIED = "retried"
"""The verbs in entries of the log."""
MOST = 1_000
"""Exclusions and settings that a crawl may have."""
KEPT = 500
"""Entries of the log."""
MAX_WHO = 100
MAX_FIELD = 3_000
"""Characters of what is excluded, or set."""
ALL_HOSTS = "all hosts"
"""What is retried, unless it is a single host."""
EXCLUDE = "exclude"
"""The first word of a field that excludes something; then kind and value follow."""
YES = "yes"
SETTING = "set"
"""The first word of a field that changes a setting; then its name follows, and a host,
if any."""
_BY = re.compile(r"([0-9]{1,15}) (.+)", re.DOTALL)
_LOGGED = re.compile(
    r"([0-9]{1,15}) ([0-9]{1,15}) ([a-z]{1,20}) ([^\n]*)\n(.*)", re.DOTALL
)


@frozen
class By:
    """When something was wanted, and by whom."""

    at_ms: int
    """By the server's clock."""
    who: str
    """``user@host``."""


@frozen
class Entry:
    """One entry of the log."""

    version: int
    at_ms: int
    verb: str
    who: str
    what: str


@frozen
class Controls:
    """What is wanted of a crawl."""

    paused: By | None = None
    excluded: Mapping[Rule, By] = field(default_factory=dict)
    """What is excluded, and by whom, the oldest first."""
    exclusions: Exclusions = field(default_factory=Exclusions, repr=False)
    """The rules of *excluded*, in a form that can be asked about URLs."""
    settings: Mapping[tuple[str, str], tuple[str, By]] = field(default_factory=dict)
    """Name and host (empty for all hosts) to the value as it was given, and by whom."""
    log: tuple[Entry, ...] = ()
    """The oldest first."""
    faults: tuple[tuple[str, str], ...] = ()
    """Keys with something unreadable, which was left out, and what that is."""

    @property
    def strange(self) -> tuple[str, ...]:
        """What was left out, for people."""
        return tuple(f"{key}: {reason}" for key, reason in self.faults)


@frozen
class Change:
    """What an operator wants changed."""

    verb: str
    what: str = ""
    """The rest of the entry in the log."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Entries of the hash; one with an empty value is removed."""


def operator() -> str:
    """Who runs this process, ``user@host``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = str(os.getuid())
    return _plain(f"{user}@{socket.gethostname()}", MAX_WHO)


def change(
    store: BlockingStore, keys: CrawlKeys, wanted: Change, who: str
) -> tuple[int, bool]:
    """Do what is *wanted*; return the version, and whether anything changed.

    Raises:
        UnknownCrawl: There is no such crawl.
        CrawlClosed: It has ended.
        ConfigurationError: There would be more than `MOST` entries.
    """
    names = [keys.meta, keys.controls, keys.control_log]
    args: list[Argument] = [wanted.verb, _plain(who, MAX_WHO)]
    args += [_plain(wanted.what, MAX_FIELD), MOST, KEPT]
    for name, value in wanted.fields.items():
        args += [name, value]
    state, version, done = store.call(Call.to("crawl_control", names, args))
    if not state:
        raise UnknownCrawl(keys.namespace, keys.crawl_id)
    if state != b"open":
        raise CrawlClosed(keys.crawl_id)
    if done < 0:
        raise ConfigurationError(
            f"the crawl {keys.crawl_id} has {MOST:,} exclusions and settings "
            "already, which is the most; replace several by one pattern"
        )
    return int(version), bool(done)


def calls(keys: CrawlKeys) -> list[Call]:
    """The calls whose replies, including those for damaged keys, `read` reads."""
    return [
        Call.command("HGET", keys.meta, "paused"),
        Call.command("HGETALL", keys.controls),
        Call.command("LRANGE", keys.control_log, -KEPT, -1),
    ]


def read(keys: CrawlKeys, replies: Sequence[Any]) -> Controls:
    """What *replies* say is wanted."""
    paused, found, logged = replies
    strange = [
        (reply.key, reply.reason) for reply in replies if isinstance(reply, KeyDamaged)
    ]
    pause = _by(paused) if isinstance(paused, bytes) else None
    if isinstance(paused, bytes) and pause is None:
        strange.append((keys.meta, f"its paused is {paused[:40]!r}"))
    excluded: dict[Rule, By] = {}
    exclusions = Exclusions()
    changed: dict[tuple[str, str], tuple[str, By]] = {}
    for name, value in _fields(found):
        try:
            if name.startswith(f"{SETTING} "):
                which, how = _setting(name, value)
                changed[which] = how
                continue
            by, rule = _exclusion(name, value)
            exclusions.add(rule)
            excluded[rule] = by
        except (ConfigurationError, ValueError) as error:
            strange.append((keys.controls, f"{name[:100]!r}: {error}"[:300]))
    entries = logged if isinstance(logged, list) else []
    log = [entry for value in entries if (entry := _entry(value)) is not None]
    if len(log) < len(entries):
        bad = len(entries) - len(log)
        strange.append((keys.control_log, f"{bad} entries of it cannot be read"))
    return Controls(pause, excluded, exclusions, changed, tuple(log), tuple(strange))


def exclude(rule: Rule) -> Change:
    """The change that excludes *rule*."""
    return Change(EXCLUDED, str(rule), {f"{EXCLUDE} {rule}": YES})


def include(rule: Rule) -> Change:
    """The change that no longer excludes *rule*."""
    return Change(INCLUDED, str(rule), {f"{EXCLUDE} {rule}": ""})


def setting(given: Mapping[str, str], host: str = "") -> Change:
    """The change that gives settings, all of which can be changed, new values.

    With an empty value each node uses its own again.
    """
    where = f" for {host}" if host else ""
    said = ", ".join(f"{n}={text}" if text else n for n, text in given.items())
    fields = {f"{SETTING} {n}{f' {host}' * bool(host)}": t for n, t in given.items()}
    return Change(SET if any(given.values()) else UNSET, said + where, fields)


def settings(
    crawl: StoredCrawl, given: list[str], unset: list[str], host: str
) -> Change:
    """The change for settings *given*, each ``NAME=VALUE``, and *unset* ones.

    For all hosts of *crawl*, or for one.

    Raises:
        ConfigurationError: One of them cannot be changed, or not to that value.
    """
    found: dict[str, str] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ConfigurationError(f"{pair[:100]}: must be NAME=VALUE")
        found[name] = text.strip()
    host = rule_of(HOST, host).value if host else ""
    if host and host_of(f"http://{host}/") != host.strip("[]"):
        raise ConfigurationError(
            f"--host {host}: a delay applies to all ports of a host; give --host "
            f"{host.rpartition(':')[0]}"
        )
    for name, text in found.items():
        value_of(name, text, host, crawl.shape)
    for name in unset:
        if name not in LIVE:
            value_of(name, "", host, crawl.shape)  # says why not
        found[name] = ""
    config = crawl.config
    if found.keys() & {*QUOTAS} and config.host_shards > 1:
        raise ConfigurationError(
            f"{' and '.join(QUOTAS)} need all URLs of a host in one queue, and this "
            "crawl splits hosts (FRONTIER_HOST_SHARDS)"
        )
    return setting(found, host)


def _setting(name: str, value: bytes) -> tuple[tuple[str, str], tuple[str, By]]:
    """Which setting an entry changes, and to what.

    Raises:
        ConfigurationError: It cannot be changed to that.
        ValueError: It is not an entry of this version.
    """
    _, setting_name, *rest = name.split(" ")
    head, _, text = value.partition(b"\n")
    by = _by(head)
    if by is None or len(rest) > 1:
        raise ValueError("is not an entry of this version")
    host = rule_of(HOST, rest[0]).value if rest else ""
    value_of(setting_name, text.decode("utf-8", "replace"), host)
    return (setting_name, host), (text.decode("utf-8", "replace"), by)


def _fields(found: Any) -> list[tuple[str, bytes]]:
    """The entries of the hash, the oldest first; a hash that is too long is cut."""
    known = list(found.items()) if isinstance(found, dict) else []
    return sorted(
        (
            (name[: 4 * MAX_FIELD].decode("utf-8", "replace"), value[: 4 * MAX_FIELD])
            for name, value in known[: 2 * MOST]
        ),
        key=lambda one: (one[1], one[0]),  # times have as many digits until 2286
    )


def _exclusion(name: str, value: bytes) -> tuple[By, Rule]:
    """What an entry excludes, and by whom.

    Raises:
        ConfigurationError: What it excludes is invalid.
        ValueError: It is not an exclusion.
    """
    word, _, rest = name.partition(" ")
    kind, _, what = rest.partition(" ")
    by = _by(value.partition(b"\n")[0])
    if word != EXCLUDE or by is None:
        raise ValueError("is not an entry of this version")
    rule = rule_of(kind, what)
    if str(rule) != rest:
        raise ValueError("is not spelled as it is stored")
    return by, rule


def is_paused(value: bytes | None) -> bool:
    """Whether *value*, the field ``paused`` of `meta`, says that a crawl is paused."""
    return value is not None and _by(value) is not None


def _by(value: bytes) -> By | None:
    """Parse *value*, ``<time, ms> <who>``; ``None`` if it is something else."""
    found = _BY.fullmatch(value[: MAX_WHO * 8].decode("utf-8", "replace"))
    return By(int(found[1]), _plain(found[2], MAX_WHO)) if found else None


def _entry(value: bytes) -> Entry | None:
    found = _LOGGED.fullmatch(value[: MAX_FIELD * 8].decode("utf-8", "replace"))
    if found is None:
        return None
    version, at_ms, verb, who, what = found.groups()
    return Entry(
        int(version), int(at_ms), verb, _plain(who, MAX_WHO), _plain(what, MAX_FIELD)
    )


def _plain(text: str, most: int) -> str:
    """*text* as one line that is safe to print on a terminal."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text[:most])
