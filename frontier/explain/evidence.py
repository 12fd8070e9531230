"""What is known of a URL, as lines in the order of its life, each with its source.

First what it is to the crawl, then the rules that might leave it out, how it was found,
where it is queued, what became of each attempt, and which records it has. Times are
UTC, as in crawl logs and WARC files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frontier.explain.in_store import DEAD, RESERVED, STARTED, WAITING
from frontier.node.ends import described
from frontier.queue.back_off import MEANINGS
from frontier.settings.live import QUOTAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.explain.in_archive import ArchiveFacts, Record
    from frontier.explain.in_logs import Entry, LogFacts
    from frontier.explain.in_store import Place, StoreFacts, Subject
    from frontier.explain.rules import RuleCheck

STORE = "store"
COMPUTED = "computed"
ATTEMPT, RECORD = "attempt", "record"
"""Steps of which a file tells."""
LOGS, FILES = "crawl logs", "WARC files"
"""Sources that have no better name."""
FAILURES = {
    -1: ("unresolved", "the name of its host does not resolve"),
    -2: ("unconnected", "no connection to its host could be made"),
    -3: ("broken", "the connection ended before the answer came"),
    -4: ("timeout", "nothing came in time"),
    -5: ("failed", "it failed; the log of its node says of what"),
    -7: ("unfetchable", "its scheme is not known, or it is too long"),
    -8: ("host_given_up", "its host is given up, as it has not answered"),
    -61: ("robots_unreachable", "the robots.txt of its host could not be fetched"),
    -5000: ("out_of_scope", "it is out of scope"),
    -5001: ("address", "it leads to an address that is not connected to"),
    -5002: ("refused", "a downloader middleware of the project refused it"),
    -9998: ("robots", "robots.txt forbids it"),
}
"""Statuses of the crawl log that are no answers: a word, and what they mean."""
ANSWERED = 100
"""The least status that is an answer."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One statement, and where it is from."""

    step: str
    """Of a URL's life."""
    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What was not looked at, and how to have it looked at."""

    what: str
    how: str
    decides: bool = False
    """Whether it might change the answer."""


@dataclass(frozen=True, slots=True)
class Known:
    """All that was found of a URL."""

    subject: Subject
    store: StoreFacts
    logs: LogFacts
    archive: ArchiveFacts
    scope: RuleCheck
    trap: RuleCheck
    address: RuleCheck | None
    robots: RuleCheck
    gaps: tuple[Gap, ...] = ()
    """What was not looked at, beside what could not be read."""

    @property
    def entry(self) -> Entry | None:
        """The last attempt, as logs have it."""
        return self.logs.entries[-1] if self.logs.entries else None

    @property
    def record(self) -> Record | None:
        """The last capture."""
        return self.archive.records[-1] if self.archive.records else None

    @property
    def seen(self) -> bool:
        """Whether the shared tiers call the URL seen."""
        return self.store.answer is not None and self.store.answer.seen

    @property
    def has_quota(self) -> bool:
        """Whether the crawl has quotas of hosts."""
        given = [self.store.settings.get(name, "0") for name in QUOTAS]
        return any(value not in ("", "0") for value in given)


def evidence(known: Known) -> Iterator[Evidence]:
    """All that is known, in the order of a URL's life."""
    yield from _identity(known)
    yield from _rules(known)
    yield from _discovery(known)
    yield from _queue(known)
    yield from _attempts(known)


def _identity(known: Known) -> Iterator[Evidence]:
    subject, store = known.subject, known.store
    if subject.typed != subject.url:
        text = f"{subject.typed} is requested as {subject.url}"
        yield Evidence("URL", text, COMPUTED)
    if subject.refused:
        text = f"the crawl's rules have no form for it ({subject.refused}); "
        yield Evidence("canonical form", f"{text}Scrapy's is used", COMPUTED)
    elif subject.canonical != subject.url:
        yield Evidence("canonical form", subject.canonical, COMPUTED)
    text = f"{subject.fingerprint.hex()}, of a GET without a body"
    yield Evidence("fingerprint", text, COMPUTED)
    holder = "held by no node now"
    if store.holder:
        holder = f"held by the node {store.holder}"
        holder += "" if store.holder in store.live else ", which is silent"
    text = f"{subject.partition}, {holder}; queue key {subject.queue_key}"
    yield Evidence("partition", text, STORE)


def _rules(known: Known) -> Iterator[Evidence]:
    controls = known.store.controls
    rule = controls.exclusions.why(known.subject.url)
    if rule is not None:
        by = controls.excluded.get(rule)
        who = f" by {by.who} on {at(by.at_ms)}" if by is not None else ""
        yield Evidence("exclusion", f"{rule}, excluded{who}", STORE)
    else:
        yield Evidence("exclusion", "no operator has excluded it", STORE)
    named = (
        ("scope", known.scope),
        ("trap", known.trap),
        ("address", known.address),
        ("robots.txt", known.robots),
    )
    for step, ruling in named:
        if ruling is not None:
            yield Evidence(step, ruling.text, ruling.source)


def _discovery(known: Known) -> Iterator[Evidence]:
    if known.store.answer is not None:
        yield Evidence("seen", _tiers(known), STORE)
    found = _first_found(known)
    if found is not None:
        yield found


def _tiers(known: Known) -> str:
    answer = known.store.answer
    assert answer is not None  # noqa: S101 (for mypy)
    said = []
    if answer.bucket is not None:
        said.append(f"the set says {'yes' if answer.in_set else 'no'}")
    if answer.filters:
        has = any(answer.filters)
        said.append(f"Bloom says {'yes' if has else 'no'}")
        if has and not answer.in_set:
            said.append(f"as of {answer.bloom_error:.2g} of all new URLs")
    word = "yes" if answer.seen else "no"
    return f"{word}: {', '.join(said)}" if said else word


def _first_found(known: Known) -> Evidence | None:
    """On which page it was found first: as logs, records or queues have it."""
    place = known.store.place
    if known.logs.entries:
        first = known.logs.entries[0]
        found = (first.via, first.hops, first.seed, first.source)
    elif known.archive.records and (
        known.archive.records[0].via or known.archive.records[0].is_seed
    ):
        record = known.archive.records[0]
        found = (record.via, record.hops, record.seed, record.source)
    elif place is not None:
        origin = place.origin
        if not (origin.via or origin.is_seed):
            return None
        found = (origin.via, origin.hops, origin.seed, place.key)
    else:
        return None
    via, hops, seed, source = found
    if not via:
        is_robots = hops == "P"
        text = "no page: it was fetched for its rules" if is_robots else "it is a seed"
        return Evidence("found on", text, source)
    more = f" ({hops} from the seed {seed})" if seed and hops else ""
    return Evidence("found on", f"{via}{more}", source)


def _queue(known: Known) -> Iterator[Evidence]:
    store = known.store
    for place in store.places:
        text = place_of(place)
        if place.method != "GET":
            text += f", of a {place.method} request"
        if place.tries:
            text += f"; started {place.tries} times before without an ack"
        yield Evidence("queued", text, place.key)
    if not store.places and not store.removed:
        yield Evidence("queued", "nowhere in its partition", STORE)
    if store.back_off is not None:
        yield Evidence("host", back_off_of(store), STORE)
    pages, size, skipped = store.spent
    if skipped or known.has_quota:
        text = f"its host has had {pages:,} pages and {size:,} bytes"
        yield Evidence("quota", f"{text}; {skipped:,} URLs were skipped", STORE)
    yield Evidence("crawl", _crawl(store), STORE)


def back_off_of(store: StoreFacts) -> str:
    """Until when the host is left alone, and why."""
    told = store.back_off
    assert told is not None  # noqa: S101 (for mypy)
    why = MEANINGS.get(told.reason, told.reason)
    times = "1 time" if told.failures == 1 else f"{told.failures:,} times"
    if told.left <= 0:
        return f"may be asked again, and was not yet: {why}, {times}"
    until = at(store.now_ms + round(told.left * 1000))
    return f"left alone until {until}: {why}, {times}"


def _crawl(store: StoreFacts) -> str:
    text = store.state
    if store.state == "limit":
        text = f"ended at its limit, {described(store.limit)}"
    if store.controls.paused is not None:
        by = store.controls.paused
        text += f", paused since {at(by.at_ms)} by {by.who}"
    text += f", {len(store.live)} live {'node' if len(store.live) == 1 else 'nodes'}"
    return text + (f", silent: {', '.join(store.silent)}" if store.silent else "")


def _attempts(known: Known) -> Iterator[Evidence]:
    entries, records = known.logs.entries, known.archive.records
    for entry in entries:
        why = FAILURES.get(entry.status, ("", ""))[1]
        text = f"{of_log(entry.ended)}: status {entry.status}"
        text += f", {why}" if why else ""
        text += f" ({', '.join(entry.notes)})" if entry.notes else ""
        yield Evidence(ATTEMPT, text, entry.source)
    if (left := known.logs.count - len(entries)) > 0:
        yield Evidence(ATTEMPT, f"{left:,} more between these", LOGS)
    for entry in known.logs.followed:
        text = f"{of_log(entry.ended)}: it led to {entry.url}, status {entry.status}"
        yield Evidence("redirect", text, entry.source)
    for record in records:
        text = f"{of_digits(record.date)}: {record.kind}"
        text += f", status {record.status}" if record.status else ""
        if record.kind == "revisit" and record.refers_to:
            text += f", of {record.refers_to} at {record.refers_date}"
        yield Evidence(RECORD, text, record.source)
    if (left := known.archive.count - len(records)) > 0:
        yield Evidence(RECORD, f"{left:,} more between these", FILES)


def place_of(place: Place) -> str:
    """Where a URL is, for people."""
    if place.kind == WAITING:
        return f"waits until {at(place.due_ms)} in the queue {place.queue}"
    if place.kind in (RESERVED, STARTED):
        who = f"the node {place.node}" if place.node else "a node that has lost it"
        return f"{place.kind} by {who}"
    if place.kind == DEAD:
        return f"given up: {place.reason}"
    if not place.place:
        return f"in a compressed block of the queue {place.queue}"
    text = f"place {place.place:,} of {place.of:,} in the queue {place.queue}"
    if place.before:
        text += f", behind {place.before:,} of its host with a higher priority"
    if place.process:
        text += f"; only the process {place.process} can send it"
    return text


def at(ms: int) -> str:
    """*ms* since the Unix epoch, for people."""
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return "an unknown time"


def of_log(text: str) -> str:
    """The time of a line of a crawl log, for people."""
    return f"{text[:10]} {text[11:19]} UTC" if len(text) >= 19 else text


def of_digits(text: str) -> str:
    """The time that 14 digits are, for people."""
    if len(text) != 14:
        return text or "an unknown time"
    day, time = f"{text[:4]}-{text[4:6]}-{text[6:8]}", text[8:]
    return f"{day} {time[:2]}:{time[2:4]}:{time[4:]} UTC"
