"""The answer: why a URL was or was not crawled, in one sentence, and what to do.

What is recorded outweighs what is computed, and where a URL is now outweighs what was.
Where nothing is recorded of a URL, the first rule that leaves it out is the reason.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.explain.evidence import (
    ANSWERED,
    ATTEMPT,
    FAILURES,
    RECORD,
    Evidence,
    Gap,
    at,
    back_off_of,
    evidence,
    of_digits,
    of_log,
    place_of,
)
from frontier.explain.in_store import DEAD, READY, RESERVED, STARTED, WAITING
from frontier.node.ends import described
from frontier.settings.live import SCOPE
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.explain.evidence import Known
    from frontier.explain.in_archive import Record
    from frontier.explain.in_logs import Entry
    from frontier.explain.in_store import Place

LATER = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
"""Statuses after which a URL is tried again: Scrapy's ``RETRY_HTTP_CODES``."""
UNSURE = frozenset({"done", "not_found", "removed", "seen_by_bloom"})
"""Reasons that rest on nothing having been found."""
REASONS = frozenset(
    {
        *("fetched", "in_progress", "queued", "reserved", "waiting", "no_node"),
        *("paused", "host_left_alone", "given_up", "excluded"),
        *("host_quota", "crawl_limit", "crawl_canceled", "crawl_ended", "claimed"),
        *("trap", "not_found", "done", "removed", "seen_by_bloom", "scheme"),
        *(reason for reason, _ in FAILURES.values()),
    }
)
"""What `Explanation.reason` may be."""


@dataclass(slots=True)
class Explanation:
    """Why a URL was or was not crawled."""

    crawl_id: str
    url: str
    reason: str
    """One of `REASONS`, for programs."""
    fetched: bool
    """Whether a server has answered it, in this crawl."""
    answer: str
    """In one sentence or two."""
    next: str = ""
    """What an operator may do now; empty if nothing."""
    evidence: list[Evidence] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    @property
    def recorded(self) -> bool:
        """Whether a log or an archive has anything of the URL."""
        return any(one.step in (ATTEMPT, RECORD) for one in self.evidence)

    @property
    def sure(self) -> bool:
        """Whether nothing that was not looked at might change the answer."""
        return not any(gap.decides for gap in self.gaps)

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "crawl_id": self.crawl_id,
            "url": self.url,
            "reason": self.reason,
            "fetched": self.fetched,
            "sure": self.sure,
            "answer": self.answer,
            "next": self.next,
            "evidence": [asdict(one) for one in self.evidence],
            "not_looked_at": [asdict(one) for one in self.gaps],
        }


class Judged(NamedTuple):
    """A reason, the answer, and what to do."""

    reason: str
    answer: str
    next: str = ""


def explain(known: Known) -> Explanation:
    """What *known* amounts to."""
    judged = _judged(known)
    return Explanation(
        known.store.crawl_id,
        known.subject.url,
        judged.reason,
        _was_fetched(known),
        judged.answer,
        judged.next,
        list(evidence(known)),
        list(_gaps(known, judged.reason)),
    )


def _was_fetched(known: Known) -> bool:
    entries = known.logs.entries
    return bool(known.archive.records) or any(e.status >= ANSWERED for e in entries)


def _judged(known: Known) -> Judged:
    place = known.store.place
    if place is not None and place.kind == DEAD:
        again = f"frontier crawl requeue {_url(known)} --crawl {_crawl(known)}"
        text = f"It was given up: {place.reason}."
        return Judged("given_up", text, f"{again} tries it again")
    if place is not None and place.kind == STARTED and place.node in known.store.live:
        text = f"It is in progress: the node {place.node} fetches it, or parses it."
        return Judged("in_progress", text, "wait")
    is_open = place is not None and not place.visited and _is_to_be_tried_again(known)
    if _was_fetched(known) and not is_open:
        return _of_fetch(known)
    if place is not None:
        return _of_queue(known, place)
    if known.entry is not None:
        return _of_failure(known, known.entry)
    return _of_nothing(known)


def _is_to_be_tried_again(known: Known) -> bool:
    """Whether the last answer was one after which a request is sent again."""
    if known.entry is not None:
        return known.entry.status in LATER or known.entry.status < ANSWERED
    return known.record is not None and known.record.status in map(str, LATER)


def _of_fetch(known: Known) -> Judged:
    record, place = known.record, known.store.place
    answered = [e for e in known.logs.entries if e.status >= ANSWERED]
    when, status = _last_answer(record, answered[-1] if answered else None)
    text = f"It was fetched, with status {status}," if status else "It was fetched"
    text += f" on {when}"
    if record is None:
        unwritten = bool(answered) and "unwritten" in answered[-1].notes
        text += "; it has no record, as the crawl's rules leave it out" * unwritten
        text += "; its WARC record was not found" * (not unwritten)
    elif record.kind == "revisit":
        text += f", and stored as a revisit of {record.refers_to or 'its own URL'}"
    else:
        text += ", and stored"
    if known.logs.followed:
        last = known.logs.followed[-1]
        why = FAILURES.get(last.status, ("", f"status {last.status}"))[1]
        text += f". It led to {last.url} ({why})"
    if place is not None:
        due = f", due {at(place.due_ms)}" if place.kind == WAITING else ""
        text += f". It is queued again{due}"
    if record is None:
        return Judged("fetched", f"{text}.")
    where = shlex.quote(printable(record.source))
    return Judged("fetched", f"{text}.", f"frontier warc show {where} prints it")


def _last_answer(record: Record | None, entry: Entry | None) -> tuple[str, str]:
    """When it was answered last, and with which status."""
    if entry is not None:
        return of_log(entry.ended), str(entry.status)
    assert record is not None  # noqa: S101 (for mypy)
    return of_digits(record.date), record.status


def _of_queue(known: Known, place: Place) -> Judged:
    """Of a URL that is not fetched, and is somewhere in its partition."""
    store, crawl = known.store, _crawl(known)
    if store.state != "open":
        return _of_end(known)
    rule = store.controls.exclusions.why(known.subject.url)
    if rule is not None:
        text = f"It is queued, and will not be fetched: {rule} is excluded."
        return Judged("excluded", text, _include(known))
    if store.controls.paused is not None:
        by = store.controls.paused
        text = f"It is queued, and the crawl is paused since {at(by.at_ms)} by {by.who}"
        return Judged("paused", f"{text}.", f"frontier crawl resume --crawl {crawl}")
    if store.back_off is not None and store.back_off.left > 0:
        text = f"It is queued, and its host is {back_off_of(store)}."
        return Judged("host_left_alone", text, "wait: nodes ask the host again then")
    if place.kind == WAITING:
        is_due = place.due_ms <= store.now_ms
        word = "is due since" if is_due else "waits until it is due,"
        text = f"It is queued, and {word} {at(place.due_ms)}."
        now = f"frontier recrawl now {_url(known)} --crawl {crawl}"
        return Judged("waiting", text, f"{now} has it fetched at once")
    if not store.live:
        who = f" {place_of(place).capitalize()}." if place.kind != READY else ""
        text = f"It is queued, and no node of the crawl is alive.{who}"
        return Judged("no_node", text, "start a node")
    if place.kind in (RESERVED, STARTED):
        text = f"It is queued, and about to be fetched: {place_of(place)}."
        return Judged("reserved", text, "wait")
    text = f"It is queued, and not fetched yet: {place_of(place)}."
    return Judged("queued", text, "wait")


def _of_end(known: Known) -> Judged:
    """Of a URL that was queued when the crawl ended."""
    store = known.store
    again = "raise or lift what ended it, and start the next crawl"
    if store.state == "limit":
        text = f"the crawl ended at its limit, {described(store.limit)}"
        return Judged("crawl_limit", f"It was not fetched: {text}.", again)
    if store.state == "canceled":
        text = "It was not fetched: an operator canceled the crawl."
        return Judged("crawl_canceled", text, again)
    text = f"It was not fetched: the crawl has ended ({store.state}) before its turn."
    return Judged("crawl_ended", text, again)


def _of_failure(known: Known, entry: Entry) -> Judged:
    """Of a URL that is done, after an attempt without an answer."""
    other = ("failed", f"it failed with the status {entry.status}")
    reason, why = FAILURES.get(entry.status, other)
    if reason == "out_of_scope" and "excluded" in entry.notes:
        reason, why = "excluded", "an operator excluded it"
    kinds = [note for note in entry.notes if note.startswith("address:")]
    if reason == "address" and kinds:
        kind = kinds[0].partition(":")[2]
        why = f"it leads to a {kind} address, and such are not connected to"
    tries = "" if known.logs.count == 1 else f", the last of {known.logs.count:,} times"
    text = f"It was not fetched: {why} ({of_log(entry.ended)}{tries})."
    return Judged(reason, text, _next(known, reason))


def _of_nothing(known: Known) -> Judged:
    """Of a URL that is nowhere, and of which nothing is recorded."""
    store, url = known.store, known.subject.url
    rule = store.controls.exclusions.why(url)
    if rule is not None:
        text = f"It was not fetched: an operator has excluded {rule}."
        return Judged("excluded", text, _include(known))
    if known.seen:
        return _of_done(known)
    if not url.startswith(("http://", "https://")):
        text = "It was not fetched: nodes take http and https, unless told otherwise."
        return Judged("scheme", text, "FRONTIER_SCHEMES allows others in a new crawl")
    for reason, ruling in (
        ("address", known.address),
        ("out_of_scope", known.scope),
        ("trap", known.trap),
    ):
        if ruling is not None and ruling.allows is False:
            text = f"It was not fetched: {ruling.text}. This is computed, not recorded."
            return Judged(reason, text, _next(known, reason))
    if store.removed:
        text = "It is not known: what the crawl had seen and queued is removed."
        return Judged("removed", text)
    if store.answer is None:
        text = "It is not queued, and the crawl does not store what it has seen."
        return Judged("not_found", text, _next(known, "not_found"))
    when = " so far" if store.state == "open" else ""
    text = f"It was not found{when}: no page that was fetched led to it."
    if known.robots.allows is False:
        text += " If one does, it is not fetched: robots.txt forbids it."
    return Judged("not_found", text, _next(known, "not_found"))


def _of_done(known: Known) -> Judged:
    """Of a URL that was seen, and has left the queue without a record."""
    store = known.store
    pages, size, skipped = store.spent
    if skipped:
        text = (
            f"It was not fetched, by all that is known: its host had its quota, "
            f"{pages:,} pages and {size:,} bytes; {skipped:,} of its URLs were skipped."
        )
        return Judged("host_quota", text, _next(known, "host_quota"))
    if store.claimed:
        text = "It was found by a process that is gone, and is found again from there."
        return Judged("claimed", text, "wait")
    if known.robots.allows is False:
        text = "It was found, and not fetched, by all that is known: robots.txt forbids"
        return Judged("robots", f"{text} it. This is computed, not recorded.")
    if store.answer is not None and store.answer.only_bloom:
        error = store.answer.bloom_error
        text = (
            "It was fetched before, or never: only the Bloom filter calls it seen, "
            f"and it does so of {error:.2g} of all new URLs."
        )
        return Judged("seen_by_bloom", text, _next(known, "not_found"))
    text = "It was found, and the crawl is done with it; whether it was fetched is not"
    return Judged("done", f"{text} known: no record or line of a log was found.")


def _next(known: Known, reason: str) -> str:
    """What an operator may do about a URL that was not fetched for *reason*."""
    url, crawl = _url(known), _crawl(known)
    if reason == "robots":
        return "ask the owner of the site; the crawl keeps to robots.txt"
    if reason == "address":
        return "FRONTIER_ALLOW_ADDRESSES allows it in a new crawl"
    if known.store.state != "open":
        return "make it a seed of the next crawl"
    seed = f"frontier crawl seed {url} --crawl {crawl} queues it"
    if known.seen:
        seed = f"frontier seen forget {url} --crawl {crawl} --yes, then {seed}"
    more = {
        "out_of_scope": "scope=domain",
        "trap": f"{known.trap.text.rpartition('(')[2].partition(' ')[0]}=N",
        "host_quota": "FRONTIER_HOST_MAX_PAGES=N",
    }
    if reason in more:
        change = f"frontier crawl set {more[reason]} --crawl {crawl}"
        return f"{seed}; {change} allows what is found from then on"
    return seed


def _include(known: Known) -> str:
    """The command that takes an exclusion back."""
    rule = known.store.controls.exclusions.why(known.subject.url)
    if rule is None:
        return ""
    option = "" if rule.kind == "host" else f"--{rule.kind} "
    value = shlex.quote(printable(rule.value))
    return f"frontier crawl exclude {option}{value} --remove --crawl {_crawl(known)}"


def _url(known: Known) -> str:
    return shlex.quote(known.subject.url)


def _crawl(known: Known) -> str:
    return shlex.quote(printable(known.store.crawl_id))


def _gaps(known: Known, reason: str) -> Iterator[Gap]:
    """What was not looked at; it decides where nothing that is recorded does."""
    computed = known.entry is None and reason in {"robots", "host_quota", "claimed"}
    unsure = reason in UNSURE or computed
    for one in known.store.unread:
        repair = f"frontier crawl repair --crawl {_crawl(known)} mends damaged keys"
        yield Gap(printable(one), repair, decides=unsure or reason == "trap")
    for gap in known.gaps:
        yield Gap(gap.what, gap.how, decides=gap.decides and unsure)
    for one in (*known.logs.unread, *known.archive.unread):
        yield Gap(printable(one), "make it readable, and ask again", decides=unsure)
    if known.logs.wrong:
        what = f"{known.logs.wrong:,} lines of crawl logs, which are damaged"
        yield Gap(what, "look into the files", decides=unsure)
    if reason == "not_found" and known.scope.allows is None:
        how = "--seeds FILE names the seeds, or --logs DIR logs that do"
        decides = bool(known.store.settings.get(SCOPE)) or not known.store.own
        if not decides:
            how = "look into its allowed_domains, rules and callbacks"
        yield Gap(f"scope: {known.scope.text}", how, decides=decides)
    if reason == "not_found" and known.trap.allows is None:
        yield Gap(f"traps: {known.trap.text}", "ask while a node runs", decides=True)
