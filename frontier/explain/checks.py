"""The answer: a chain of checks, whose findings are the evidence.

A check gets everything that was read about a URL, and yields what it finds. The checks
are in the order of a URL's life. A finding that would explain why the URL was, or was
not, crawled has a rank; the one with the highest rank is the answer. What is recorded
outranks what is computed, and where a URL is now outranks what happened before. Times
are UTC, as in crawl logs and WARC files. No I/O.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from frontier.errors import ConfigurationError
from frontier.explain.files import GIVE, Gap
from frontier.explain.in_logs import MOST_SEEDS, LogFacts
from frontier.explain.in_store import (
    DEAD,
    READY,
    RESERVED,
    STARTED,
    WAITING,
    Place,
    StoreFacts,
    Subject,
)
from frontier.model import frozen
from frontier.node.ends import described
from frontier.queue.hosts import MEANINGS
from frontier.settings.live import QUOTAS, SCOPE
from frontier.status.text import counted, moment
from frontier.status.validate import printable
from frontier.urls.scope import Scope
from frontier.urls.traps import HOPS, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from frontier.explain.in_archive import ArchiveFacts

STORE, COMPUTED = "store", "computed, not recorded"
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
    -5001: ("address", "it leads to an address to which nodes do not connect"),
    -5002: ("refused", "a downloader middleware of the project refused it"),
    -9998: ("robots", "robots.txt forbids it"),
}
"""Statuses of the crawl log that mean no response: their reason, and what they mean."""
ANSWERED = 100
"""The lowest status that is a response."""
LATER = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
"""Statuses after which a URL is tried again: Scrapy's ``RETRY_HTTP_CODES``."""
TRAPS = {
    "length": "the URL is too long",
    "hops": "too many links away from a seed",
    "segments": "its path has too many segments",
    "path": "its path repeats itself",
    "query": "too many URLs of this page with these parameters",
    "directory": "too many URLs in its directory",
    "host": "too many URLs of its host",
}
RANKS = (
    "not_found",
    "removed",
    "done",
    "seen_by_bloom",
    "claimed",
    "host_quota",
    "trap",
    "out_of_scope",
    "scheme",
    "queued",
    "reserved",
    "no_node",
    "waiting",
    "host_left_alone",
    "paused",
    "excluded",
    "crawl_ended",
    "crawl_canceled",
    "crawl_limit",
    "fetched",
    "in_progress",
    "given_up",
)
"""Reasons, lowest rank first; those of the log, in `FAILURES`, rank as `FAILED`."""
FAILED = RANKS.index("excluded") - 0.5
REASONS = {*RANKS, *(reason for reason, _ in FAILURES.values())}
UNSURE = RANKS.index("host_quota")
"""The highest rank of answers that rest on nothing having been recorded."""


@frozen
class Finding:
    """One statement, its source, and what it would explain."""

    step: str
    """The step in a URL's life; empty for an answer that follows from others."""
    text: str = ""
    source: str = STORE
    reason: str = ""
    """One of `REASONS`, for programs; empty if it explains nothing."""
    answer: str = ""
    """One sentence or two."""
    next: str = ""
    """What an operator can do now; empty if nothing."""
    rank: float = -1

    @property
    def weight(self) -> float:
        """Its own rank if it has one, else that of its reason."""
        return (
            self.rank if self.rank >= 0 or not self.reason else RANKS.index(self.reason)
        )


@frozen
class Known:
    """Everything that was read about a URL."""

    subject: Subject
    store: StoreFacts
    logs: LogFacts
    archive: ArchiveFacts
    seeds: Collection[str] = ()
    """Seeds given on the command line."""
    gaps: tuple[Gap, ...] = ()
    """What was not looked at, apart from what could not be read."""

    @property
    def crawl_id(self) -> str:
        """The id of the crawl, quoted for a shell."""
        return shlex.quote(printable(self.store.crawl.view.crawl_id))

    @property
    def url(self) -> str:
        """The URL, quoted for a shell."""
        return shlex.quote(self.subject.url)

    @property
    def is_seen(self) -> bool:
        """Whether the shared tiers call the URL seen."""
        return self.store.answer is not None and self.store.answer.seen

    @property
    def is_gone(self) -> bool:
        """Whether the URL is nowhere in the store, and no attempt is recorded."""
        return self.store.place is None and not self.logs.entries

    @property
    def is_unknown(self) -> bool:
        """Whether it `is_gone`, and was never seen."""
        return self.is_gone and not self.is_seen

    @property
    def is_fetched(self) -> bool:
        """Whether a server has answered a request for it in this crawl."""
        is_answered = any(e.status >= ANSWERED for e in self.logs.entries)
        return bool(self.archive.records) or is_answered

    def again(self, change: str = "") -> str:
        """How to have it fetched; with *change*, a setting, also URLs found later."""
        if self.store.crawl.view.state != "open":
            return "make it a seed of the next crawl"
        text = f"frontier crawl seed {self.url} --crawl {self.crawl_id} queues it"
        if self.is_seen:
            forget = f"frontier seen forget {self.url} --crawl {self.crawl_id} --yes"
            text = f"{forget}, then {text}"
        if change:
            text += f"; frontier crawl set {change} --crawl {self.crawl_id}"
            text += " allows what is found from then on"
        return text


@frozen
class Explanation:
    """Why a URL was or was not crawled."""

    crawl_id: str
    url: str
    reason: str
    fetched: bool
    sure: bool
    """Whether the answer holds whatever is in places that were not looked at."""
    answer: str
    next: str
    evidence: list[Finding]
    not_looked_at: list[Gap]

    def facts(self) -> dict[str, Any]:
        """The explanation as data for JSON."""
        said = asdict(self)
        for one in said["evidence"]:
            for name in ("reason", "answer", "next", "rank"):
                del one[name]
        return said


def _answer(reason: str, text: str, how: str, rank: float = -1) -> Finding:
    """An answer that follows from other findings, and is no evidence itself."""
    return Finding("", "", "", reason, text, how, rank)


def explain(k: Known) -> Explanation:
    """The answer that *k* leads to, with its evidence."""
    found = [finding for check in CHECKS for finding in check(k)]
    best = max(found, key=lambda one: one.weight)
    gaps = list(_gaps(k, best))
    return Explanation(
        k.store.crawl.view.crawl_id,
        k.subject.url,
        best.reason,
        k.is_fetched,
        not any(gap.decides for gap in gaps),
        best.answer,
        best.next or next((gap.how for gap in gaps if gap.decides), ""),
        [one for one in found if one.step],
        gaps,
    )


def _gaps(k: Known, best: Finding) -> Iterator[Gap]:
    """What was not looked at; it may change an answer that rests on no record."""
    is_unsure = best.weight <= UNSURE
    crawl = k.store.crawl
    damaged = [f"{one.key}: {one.reason}" for one in crawl.view.harmed]
    for what in (*damaged, *crawl.controls.strange):
        how = f"frontier crawl repair --crawl {k.crawl_id} mends damaged keys"
        yield Gap(printable(what), how, decides=True)
    for gap in k.gaps:
        yield replace(gap, decides=gap.decides and is_unsure)
    for what in (*k.logs.unread, *k.archive.unread):
        yield Gap(what, "make it readable, and ask again", decides=is_unsure)
    if k.logs.wrong:
        what = f"{k.logs.wrong:,} lines of crawl logs, which are damaged"
        yield Gap(what, "look into the files", decides=is_unsure)
    if best.reason == "done" and not any(gap.decides for gap in k.gaps):
        what = "the crawl log that has its line: none that was found has it"
        yield Gap(what, GIVE, decides=True)
    if best.reason != "not_found":
        return
    scope = _in_scope(k)
    if isinstance(scope, str):
        how = "--seeds FILE names the seeds, or --logs DIR logs that do"
        is_code = k.store.crawl.nodes.own and not k.store.crawl.settings.get(SCOPE)
        if is_code:
            how = "look into its allowed_domains, rules and callbacks"
        yield Gap(f"scope: {scope}", how, decides=True)
    if not (k.store.crawl.nodes.own or k.store.crawl.settings):
        what = "traps: no node has told the crawl's limits on traps"
        yield Gap(what, "ask while a node runs", decides=True)


def _identity(k: Known) -> Iterator[Finding]:
    subject, store = k.subject, k.store
    if subject.typed != subject.url:
        text = f"{subject.typed} is requested as {subject.url}"
        yield Finding("URL", text, COMPUTED)
    if subject.refused:
        text = f"the crawl's rules have no form for it ({subject.refused}); "
        yield Finding("canonical form", f"{text}Scrapy's is used", COMPUTED)
    elif subject.canonical != subject.url:
        yield Finding("canonical form", subject.canonical, COMPUTED)
    text = f"{subject.fingerprint.hex()}, of a GET without a body"
    yield Finding("fingerprint", text, COMPUTED)
    holder = f"held by the node {store.holder}" if store.holder else "held by no node"
    if store.holder and store.holder not in store.crawl.live:
        holder += ", which is silent"
    yield Finding(
        "partition", f"{subject.partition}, {holder}; queue key {subject.queue_key}"
    )
    if k.is_unknown and not subject.url.startswith(("http://", "https://")):
        text = (
            "It was not fetched: nodes fetch http and https alone, unless "
            "FRONTIER_SCHEMES has more."
        )
        how = "FRONTIER_SCHEMES allows others in a new crawl"
        yield _answer("scheme", text, how)


def _exclusion(k: Known) -> Iterator[Finding]:
    controls = k.store.crawl.controls
    rule = controls.exclusions.why(k.subject.url)
    if rule is None:
        yield Finding("exclusion", "no operator has excluded it")
        return
    by = controls.excluded.get(rule)
    text = f"{rule}, excluded"
    if by is not None:
        text += f" by {by.who} on {at(by.at_ms)}"
    option = "" if rule.kind == "host" else f"--{rule.kind} "
    value = shlex.quote(printable(rule.value))
    how = f"frontier crawl exclude {option}{value} --remove --crawl {k.crawl_id}"
    if k.store.crawl.view.state != "open":
        how = f"{k.again()}, which begins without exclusions"
    answer = f"It was not fetched: an operator has excluded {rule}."
    yield Finding("exclusion", text, STORE, "excluded", answer, how)


def _in_scope(k: Known) -> bool | str:
    """Whether the URL is in the crawl's scope, or why that is not known."""
    kind = k.store.crawl.settings.get(SCOPE, "")
    if not kind and not k.store.crawl.nodes.own:
        return "no node has told the crawl's scope"
    if not kind:
        return "the spider has no scope setting; it follows what its code says"
    seeds = k.seeds or k.logs.seeds
    if kind != "all" and not seeds:
        return f"the scope is {kind}, and its seeds are not known"
    if len(seeds) >= MOST_SEEDS and not k.seeds:
        return f"the scope is {kind}, and it has more seeds than are kept"
    try:
        return kind == "all" or Scope(kind, seeds).allows(k.subject.url)
    except (ConfigurationError, ValueError) as error:
        return f"the scope cannot be computed: {error}"


def _ruled_out(
    k: Known, step: str, text: str, reason: str = "", how: str = ""
) -> Finding:
    """The finding that a rule says *text*; *reason* is empty if it allows the URL."""
    answer = f"It was not fetched: {text}. This is computed, not recorded."
    return Finding(step, text, COMPUTED, reason * k.is_unknown, answer, how)


def _rules(k: Known) -> Iterator[Finding]:
    """Rules that leave no trace: the crawl's scope, and limits on traps."""
    scope = _in_scope(k)
    if isinstance(scope, str):
        yield Finding("scope", scope, COMPUTED)
    else:
        where = "in scope" if scope else "out of scope"
        text = f"it is {where}: the scope is {k.store.crawl.settings.get(SCOPE)}"
        reason = "" if scope else "out_of_scope"
        yield _ruled_out(k, "scope", text, reason, k.again("scope=domain"))
    hops = [e.hops for e in k.logs.entries if e.hops or not e.via]
    hops += [p.origin[1] for p in k.store.places if p.origin and p.origin[0]]
    distance = min(map(_length, hops), default=None)
    trap = k.store.traps.catches(k.subject.url, distance or 0)
    if trap is not None:
        name = SETTINGS[trap]
        limit = k.store.crawl.settings.get(name, "?")
        text = f"it is a trap: {TRAPS[trap]} ({name} = {limit})"
        yield _ruled_out(k, "trap", text, "trap", k.again(f"{name}=N"))
    else:
        text = "none by its form, nor by what nodes have counted"
        if distance is None and k.store.crawl.settings.get(SETTINGS[HOPS]):
            text += "; how far from a seed it is, is not known"
        yield Finding("trap", text, COMPUTED)


def _length(hops: str) -> int:
    before, plus, letters = hops.rpartition("+")
    return len(letters) + (int(before) if plus and before.isdecimal() else 0)


def _discovery(k: Known) -> Iterator[Finding]:
    answer = k.store.answer
    if answer is not None:
        said = []
        if answer.bucket is not None:
            said.append(f"the set says {'yes' if answer.in_set else 'no'}")
        if answer.filters:
            said.append(f"Bloom says {'yes' if any(answer.filters) else 'no'}")
        error = f"which it does for {answer.bloom_error:.2g} of all new URLs"
        if answer.only_bloom:
            said.append(error)
        text = f"{'yes' if answer.seen else 'no'}: {', '.join(said)}"
        only = (
            "It was fetched before, or never: only the Bloom filter calls it seen, "
            f"{error}."
        )
        reason = "seen_by_bloom" * (answer.only_bloom and k.is_gone)
        yield Finding("seen", text, STORE, reason, only, k.again())
    place = k.store.place
    if k.logs.entries:
        first = k.logs.entries[0]
        via, hops, seed, source = first.via, first.hops, first.seed, first.source
        is_known = bool(seed)
    elif place is not None and place.origin is not None:
        (via, hops, seed), source = place.origin, place.key
        is_known = True
    else:
        return
    if via:
        more = f" ({hops} from the seed {seed})" if seed and hops else ""
        yield Finding("found on", f"{via}{more}", source)
    else:
        is_rules = hops == "P"
        text = "no page: it was fetched for its rules" if is_rules else "it is a seed"
        if not is_known:
            text = "not known: the spider, or a pipeline, fetched it past the queue"
        yield Finding("found on", text, source)


def _queue(k: Known) -> Iterator[Finding]:
    store, state = k.store, k.store.crawl.view.state
    for one in store.places:
        text = place_of(one)
        if (method := one.record.get("method", "GET")) != "GET":
            text += f", of a {printable(str(method))} request"
        if one.tries:
            text += f"; started {one.tries} times before without an ack"
        yield Finding("queued", text, one.key)
    place = store.place
    if place is None:
        yield from _of_nothing(k)
    elif place.kind == DEAD:
        how = f"frontier crawl requeue {k.url} --crawl {k.crawl_id} tries it again"
        yield _answer("given_up", f"It was given up: {place.reason}.", how)
    elif place.kind == STARTED and place.node in store.crawl.live:
        text = f"It is in progress: the node {place.node} fetches it, or parses it."
        yield _answer("in_progress", text, "wait")
    elif state != "open":
        yield _of_end(k)
    elif place.kind == WAITING:
        is_due = place.due_ms <= store.crawl.view.taken_ms
        word = "is due since" if is_due else "waits until it is due,"
        text = f"It is queued, and {word} {at(place.due_ms)}."
        how = f"frontier recrawl now {k.url} --crawl {k.crawl_id} fetches it now"
        yield _answer("waiting", text, f"{how} at once")
    else:
        reason, what = "reserved", "about to be fetched"
        if place.kind == READY:
            reason, what = "queued", "not fetched yet"
        text = f"It is queued, and {what}: {place_of(place)}."
        yield _answer(reason, text, "wait")


def _of_end(k: Known) -> Finding:
    """The answer for a URL that was queued when the crawl ended."""
    state = k.store.crawl.view.state
    reason, why = "crawl_ended", f"the crawl has ended ({state}) before its turn"
    if state == "limit":
        reason, why = "crawl_limit", f"the crawl {_limit(k)}"
    elif state == "canceled":
        reason, why = "crawl_canceled", "an operator canceled the crawl"
    how = "start the next crawl; if a limit ended this one, raise it first"
    return _answer(reason, f"It was not fetched: {why}.", how)


def _limit(k: Known) -> str:
    view = k.store.crawl.view
    return f"ended at its limit, {described(f'{view.limit} {view.limit_value}')}"


def _of_nothing(k: Known) -> Iterator[Finding]:
    """The answer for a URL that is nowhere in its partition."""
    reason, how = "not_found", k.again()
    if k.store.crawl.view.removed_ms:
        reason = "removed"
        text = "It is not known: the queues and the seen-set of the crawl are removed."
    elif k.is_seen:
        reason, how = "done", ""
        text = (
            "It was found, and the crawl is done with it; whether it was fetched is "
            "not known: no record or line of a log was found."
        )
        if k.store.is_claimed and k.is_gone:
            reason, how = "claimed", "wait"
            text = (
                "It was found, and cannot be stored: the process that found it sends "
                "it, or it is found once more from there."
            )
    elif k.store.answer is None:
        text = "It is not queued, and the crawl does not store what it has seen."
    else:
        when = " so far" if k.store.crawl.view.state == "open" else ""
        text = (
            f"It was not found{when}: no page that the frontier saw led to it, or the "
            "spider's own filter (allowed_domains) dropped it."
        )
    yield Finding("queued", "nowhere in its partition", STORE, reason, text, how)


def _host(k: Known) -> Iterator[Finding]:
    store, is_open = k.store, k.store.crawl.view.state == "open"
    told, is_held = (
        store.failing,
        store.failing.until * 1000 > store.crawl.view.taken_ms,
    )
    if told.failures:
        why = MEANINGS.get(told.reason, told.reason)
        times = counted(told.failures, "time")
        text = f"may be asked again, and was not yet: {why}, {times}"
        if is_held:
            text = f"left alone until {at(round(told.until * 1000))}: {why}, {times}"
        holds = is_held and store.place is not None and is_open
        answer = f"It is queued, and its host is {text}."
        how = "wait: nodes ask the host again then"
        yield Finding("host", text, STORE, "host_left_alone" * holds, answer, how)
    had, skipped = store.spent, store.spent.skipped
    has_quota = any(
        store.crawl.settings.get(name, "0") not in ("", "0") for name in QUOTAS
    )
    if skipped or has_quota:
        text = f"{had.pages:,} pages and {had.size:,} bytes; "
        text += f"{skipped:,} URLs were skipped"
        answer = (
            "As far as is known, it was not fetched: its host had used up its quota, "
            f"{text}."
        )
        reason = "host_quota" if skipped and k.is_gone and k.is_seen else ""
        how = k.again("FRONTIER_HOST_MAX_PAGES=N")
        yield Finding("quota", f"its host has had {text}", STORE, reason, answer, how)


def _crawl(k: Known) -> Iterator[Finding]:
    store, crawl = k.store, k.store.crawl
    is_queued = store.place is not None and crawl.view.state == "open"
    text, reason, answer, how = crawl.view.state, "", "", ""
    if text == "limit":
        text = _limit(k)
    live, silent = crawl.live, sorted(crawl.nodes.beats.keys() - crawl.live)
    text += f", {counted(len(live), 'live node')}"
    if silent:
        text += f", silent: {', '.join(silent)}"
    if not live:
        reason, how = "no_node" * is_queued, "start a node"
        answer = "It is queued, and no node of the crawl is alive."
    if (by := crawl.controls.paused) is not None:
        since = f"paused since {at(by.at_ms)} by {by.who}"
        text += f", {since}"
        reason, how = (
            "paused" * is_queued,
            f"frontier crawl resume --crawl {k.crawl_id}",
        )
        answer = f"It is queued, and the crawl is {since}."
    yield Finding("crawl", text, STORE, reason, answer, how)


def _attempts(k: Known) -> Iterator[Finding]:
    for entry in k.logs.entries:
        why = FAILURES.get(entry.status, ("", ""))[1]
        text = f"{of_log(entry.ended)}: status {entry.status}"
        text += f", {why}" if why else ""
        text += f" ({', '.join(entry.notes)})" if entry.notes else ""
        yield Finding("attempt", text, entry.source)
    if (more := k.logs.count - len(k.logs.entries)) > 0:
        yield Finding("attempt", f"{more:,} more between these", "crawl logs")
    for entry in k.logs.followed:
        text = f"{of_log(entry.ended)}: it led to {entry.url}, status {entry.status}"
        yield Finding("redirect", text, entry.source)
    if k.logs.entries and k.store.place is None and not k.is_fetched:
        yield _of_failure(k)


def _of_failure(k: Known) -> Finding:
    """The answer for a URL that is done, after an attempt that got no response."""
    entry = k.logs.entries[-1]
    other = ("failed", f"it failed with the status {entry.status}")
    reason, why = FAILURES.get(entry.status, other)
    how = k.again()
    if reason == "out_of_scope":
        how = k.again("scope=domain")
        if "excluded" in entry.notes:
            reason, why = "excluded", "an operator excluded it"
    elif reason == "robots":
        how = "ask the owner of the site; the crawl keeps to robots.txt"
    elif reason == "address":
        how = "FRONTIER_ALLOW_ADDRESSES allows it in a new crawl"
        for note in entry.notes:
            if note.startswith("address:"):
                kind = note.partition(":")[2]
                why = f"it leads to a {kind} address, to which nodes do not connect"
    tries = "" if k.logs.count == 1 else f", the last of {k.logs.count:,} times"
    text = f"It was not fetched: {why} ({of_log(entry.ended)}{tries})."
    return _answer(reason, text, how, FAILED)


def _records(k: Known) -> Iterator[Finding]:
    for record in k.archive.records:
        line = record.line
        text = f"{of_digits(line.timestamp)}: {record.kind}"
        text += f", status {line.status}" if line.status else ""
        if record.kind == "revisit" and line.refers_to:
            text += f", of {line.refers_to} at {line.refers_date}"
        yield Finding("record", text, record.source)
    if (more := k.archive.count - len(k.archive.records)) > 0:
        yield Finding("record", f"{more:,} more between these", "WARC files")
    place = k.store.place
    is_open = place is not None and not place.record.get("recrawl")
    if k.is_fetched and not (is_open and _is_to_be_tried_again(k)):
        yield _of_fetch(k)


def _is_to_be_tried_again(k: Known) -> bool:
    """Whether the last attempt ended so that the request is sent again."""
    if k.logs.entries:
        status = k.logs.entries[-1].status
        return status in LATER or status < ANSWERED
    return k.archive.records[-1].line.status in map(str, LATER)


def _of_fetch(k: Known) -> Finding:
    record = k.archive.records[-1] if k.archive.records else None
    answered = [e for e in k.logs.entries if e.status >= ANSWERED]
    how = ""
    if answered:
        when, status = of_log(answered[-1].ended), str(answered[-1].status)
    elif record is not None:
        when, status = of_digits(record.line.timestamp), record.line.status
    text = f"It was fetched{f', with status {status},' if status else ''} on {when}"
    if record is None:
        is_left_out = "unwritten" in answered[-1].notes
        what = "it has no record, as the crawl's rules leave it out"
        text += f"; {what if is_left_out else 'its WARC record was not found'}"
    else:
        how = f"frontier warc show {shlex.quote(printable(record.source))} prints it"
        text += ", and stored"
        if record.kind == "revisit":
            text += f" as a revisit of {record.line.refers_to or 'its own URL'}"
    if k.logs.followed:
        last = k.logs.followed[-1]
        why = FAILURES.get(last.status, ("", f"status {last.status}"))[1]
        text += f". It led to {last.url} ({why})"
    if (place := k.store.place) is not None:
        due = f", due {at(place.due_ms)}" if place.kind == WAITING else ""
        text += f". It is queued again{due}"
    return _answer("fetched", f"{text}.", how)


CHECKS = (
    *(_identity, _exclusion, _rules, _discovery),
    *(_queue, _host, _crawl, _attempts, _records),
)
"""All checks, in the order of a URL's life."""


def place_of(place: Place) -> str:
    """Where a URL is, for people."""
    if place.kind == WAITING:
        return f"waits until {at(place.due_ms)} in the queue {place.queue}"
    if place.kind in (RESERVED, STARTED):
        who = f"the node {place.node}" if place.node else "a node that has lost it"
        return f"{place.kind} by {who}"
    if place.kind == DEAD:
        return f"given up: {place.reason}"
    text = f"place {place.place:,} of {place.of:,} in the queue {place.queue}"
    if place.before:
        text += f", behind {place.before:,} of its host with a higher priority"
    return text


def at(ms: int) -> str:
    """The time *ms* milliseconds after the Unix epoch, for people."""
    return f"{moment(ms)} UTC"


def of_log(text: str) -> str:
    """The time of a line of a crawl log, for people."""
    return f"{text[:10]} {text[11:19]} UTC" if len(text) >= 19 else text


def of_digits(text: str) -> str:
    """The time that 14 digits mean, for people."""
    day, time = f"{text[:4]}-{text[4:6]}-{text[6:8]}", text[8:]
    return f"{day} {time[:2]}:{time[2:4]}:{time[4:]} UTC"
