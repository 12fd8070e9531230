"""Recrawls: each page that was fetched is put back, due when its schedule says.

The request of a page is reserved while it is fetched. Once all that came of it is
stored, its reservation ends, and in the same step it waits again, with a new state
(`frontier.recrawl.schedule`) and a new due time (`frontier.queue.due`).

What always holds:

1.  A request is put back in the step in which its reservation ends: a kill at any
    moment neither loses a URL of the schedule nor has it there twice.
2.  What is queued instead of a visit in progress (a retry, a redirect to another
    spelling of the same page, the same request from its callback) takes its place in
    the schedule, in that step as well. So a URL that passed the seen test once is
    there once, in whatever ways it was found.
3.  A request that is exempt from the seen test is not put back: nothing says that it is
    the only one for its URL. Nor is one that is not GET, unless its ``meta`` says so.
4.  A request waits for its record before it is put back, and for the digest of its
    text: what its state says about a version is on disk.
5.  The schedule in the store is data of unknown origin. Whatever is not a state counts
    as none: the URL starts with the first interval.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from scrapy import Request, signals
from typing_extensions import override

from frontier.download.body_spool import ARCHIVED_ONLY
from frontier.download.conditional import FLAG
from frontier.node.context import Part
from frontier.queue.due import META as DUE_META, Again
from frontier.queue.item import RECRAWL, Codec
from frontier.queue.priority import queue_name, split_name
from frontier.queue.push import FORCE, MARK, TEST
from frontier.recrawl.rules import Rules, changed_by, rules_file
from frontier.recrawl.schedule import (
    Answer,
    Finding,
    Kind,
    Mark,
    Schedule,
    State,
    after,
    schedule_of,
)
from frontier.recrawl.text_digest import HTML, text_digest
from frontier.session.session import REDIRECTS, URL_SHOWN, RequestState, session_of
from frontier.settings.live_source import Live

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.node.delivery import Delivery, Link
    from frontier.queue.reserve import Reservation

logger = logging.getLogger(__name__)

META = "frontier_recrawl"
"""Key of ``meta``: false to fetch the request once; true to visit it again though it is
no GET; or a mapping of what a rule may say about a schedule."""
EXEMPT = b""
"""Stands in place of a state: a request that was not tested is not put back."""
RELOAD = 10.0
"""Seconds between checks of the rule file."""
MOST_HOPS = 20
"""Redirects that a request remembers over its visits."""
STATS = {finding: f"frontier/recrawl/{finding}" for finding in Finding}
_OF_ONE_VISIT = frozenset(
    {
        DUE_META,
        "backoff_times",
        "download_latency",
        "frontier_unconditional",
        "redirect_times",
        "redirect_ttl",
        "retry_times",
    }
)
"""Keys of ``meta`` that belong to a single visit."""


@dataclass(slots=True, eq=False)
class Visit:
    """One visit to a URL of the schedule. It holds no request: its delivery has it."""

    key: Any
    """What tells its request from others that are under way."""
    url: str
    meta: Mapping[str, Any]
    """The ``meta`` of its request."""
    request_state: RequestState
    began_as: tuple[int, bool]
    """The priority and ``dont_filter`` of what was visited first."""
    state: State | None
    """The state after the last visit; ``None`` if this is the first."""
    status: int = 0
    """The status of the answer; 0 while there is none."""
    mime: str = field(default="", init=False)
    is_unknown: bool = field(default=False, init=False)
    """Whether the answer says nothing about the page: it led to another one."""
    mark: Mark | asyncio.Future[Mark] | None = field(default=None, init=False)
    """The mark of the answer, if it does not follow from the record."""


class Recrawls(Part):
    """Puts the requests of one process back after their visits."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        config = self._session.config
        default = schedule_of(config)
        self._default = Rules(default)
        self._live: Live[Rules] | None = None
        self._under_way: WeakValueDictionary[Any, Delivery] = WeakValueDictionary()
        """The deliveries of visits that are not over, by `_key` of their request."""
        self._told: set[str] = set()
        if config.recrawl_rules is not None:
            self._live = Live(rules_file(config.recrawl_rules, default), RELOAD)
            self._live.load()

    def open(self, codec: Codec) -> None:
        """Begin, on a node that is in its crawl, as the last of its parts."""
        self._codec = codec
        self._clock = self._session.node.clock
        connect = self._crawler.signals.connect
        connect(self._note_answer, signals.response_downloaded)
        connect(self._note_page, signals.response_received)
        if self._live is not None:
            self._live.start()
        self._session.node.parts.add(self)

    @override
    async def quit(self) -> None:
        """Stop reading the rules."""
        if self._live is not None:
            self._live.stop()

    # What is about to be queued.

    @override
    def link(self, link: Link) -> bool:
        """Have *link* take the place of a visit in progress, if it comes from one.

        Else nothing says that it is the only one for its URL: it is fetched once.

        The target of a redirect is queued even if it was seen, where a start request
        led to it. If the page is visited again and again, each visit would queue it.
        """
        request: Request = link.request
        if link.mode not in {FORCE, MARK}:
            return True
        is_redirect = link.mode == MARK
        find = self._origin if is_redirect else self._visiting
        origin = find(request)
        is_same = origin and (not is_redirect or self._is_same(origin, request))
        if origin is not None and is_redirect and not is_same:
            is_first = origin.notes[Visit].state is None
            # Others may have seen it: then it would be lost.
            if not (is_first and self._session.start_salt):
                link.mode = TEST
                return True
        if origin is not None and is_same and _may_follow(origin, link):
            visit: Visit = origin.notes[Visit]
            packed = None if visit.state is None else visit.state.packed()
            link.extra[RECRAWL] = [packed, *visit.began_as]
            link.replaces = origin
        elif not request.meta.get(META) and not (is_redirect and is_same):
            link.extra[RECRAWL] = EXEMPT
            if is_redirect and origin is not None:
                # the origin stays scheduled, and leads here at each visit
                origin.notes[Visit].is_unknown = True
        return True

    def _visiting(self, request: Request) -> Delivery | None:
        """The visit in progress that *request* would repeat, if there is one."""
        found = self._under_way.get(_key(request))
        return found if found is not None and Visit in found.notes else None

    def _origin(self, request: Request) -> Delivery | None:
        """The visit that a redirect to *request* ended, if there is one."""
        urls = request.meta.get("redirect_urls")
        return self._visiting(Request(str(urls[-1]))) if urls else None

    def _is_same(self, origin: Delivery, request: Request) -> bool:
        fingerprint = self._session.fingerprints.of
        before = request.replace(url=origin.notes[Visit].url)
        return fingerprint(before) == fingerprint(request)

    # What becomes of a visit.

    @override
    def start(
        self, request: Request, delivery: Delivery, extra: Mapping[str, Any]
    ) -> bool:
        """Note that *request* is a visit, if it is one."""
        if not _is_wanted(request):
            return True
        if delivery.is_adopted:
            self._session.count("frontier/recrawl/local")
            self._tell_once(
                "local",
                f"{request.url[:URL_SHOWN]} is not fetched again, as its request "
                "cannot be stored; the stat frontier/recrawl/local counts others "
                "like it",
            )
            return True
        packed, began_as = _carried(extra.get(RECRAWL))
        if packed == EXEMPT:
            return True
        state = State.unpacked(packed)
        if state is None and packed is not None:
            self._session.count("frontier/recrawl/unreadable")
        delivery.notes[Visit] = Visit(
            _key(request),
            request.url,
            request.meta,
            self._session.requests.of(request),
            began_as or (request.priority, request.dont_filter),
            state,
        )
        self._under_way[_key(request)] = delivery
        return True

    def _visit(self, request: Request) -> Visit | None:
        """The visit that *request* is, if it is one."""
        delivery = self._session.requests.delivery(request)
        return None if delivery is None else delivery.notes.get(Visit)

    def _note_answer(self, request: Request, response: Response) -> None:
        visit = self._visit(request)
        if visit is None:
            return
        visit.status = response.status
        visit.mime = _mime_of(response)
        visit.mark = None
        if response.status in REDIRECTS:
            target = response.headers.get(b"Location") or b""
            visit.mark = Mark.of(b"%d %s" % (response.status, target))

    def _note_page(self, request: Request, response: Response) -> None:
        """*response* is what the callback of *request* gets, decoded."""
        visit = self._visit(request)
        if visit is None or visit.status in REDIRECTS:
            return
        if FLAG in response.flags:
            visit.status = 304
            return
        visit.status, visit.mime = response.status, _mime_of(response)
        if Answer.of_status(response.status) is not Answer.PAGE:
            return
        loop = asyncio.get_running_loop()
        has_text = visit.mime in HTML and ARCHIVED_ONLY not in response.flags
        if has_text and self._schedule(visit).text:
            visit.mark = loop.run_in_executor(None, _text_mark, response.body)
        elif visit.request_state.stored is None:
            visit.mark = loop.run_in_executor(None, Mark.of, response.body)

    @override
    async def before_ack(self, reservations: Sequence[Reservation]) -> None:
        """Have what was visited wait for its next visit, once all is known about it."""
        self.ended(reservations)
        over = [
            (reservation, visit)
            for reservation in reservations
            if (visit := reservation.delivery.notes.pop(Visit, None)) is not None
        ]
        awaited: list[asyncio.Future[Any]] = []
        for _, visit in over:
            if isinstance(visit.mark, asyncio.Future):
                awaited.append(visit.mark)
            if visit.request_state.stored is not None:
                awaited.append(asyncio.wrap_future(visit.request_state.stored))
        if awaited:
            await asyncio.wait(awaited)
        for reservation, visit in over:
            delivery = reservation.delivery
            if not (delivery.reason or delivery.again or delivery.is_last):
                delivery.again = self._again(visit, reservation)

    @override
    def ended(self, reservations: Sequence[Reservation]) -> None:
        """Let nothing take the place of *reservations* any more."""
        for reservation in reservations:
            visit = reservation.delivery.notes.get(Visit)
            known = visit and self._under_way.get(visit.key)
            if known is reservation.delivery:
                del self._under_way[visit.key]

    def _again(self, visit: Visit, reservation: Reservation) -> Again | None:
        """What is to wait in the place of *reservation*, whose *visit* is over."""
        schedule = self._schedule(visit)
        answer, mark = _found(visit)
        finding, state = after(schedule, visit.state, answer, mark)
        if schedule.kind is Kind.OFF:
            self._session.count("frontier/recrawl/off")
            return None
        is_unsent = visit.request_state.sent is None
        if finding is Finding.FAILED and is_unsent and visit.state is None:
            return None  # nobody was asked, and it never was a page
        self._session.count(STATS[finding])
        if state is None:
            self._tell_once(
                "left",
                f"{visit.url[:URL_SHOWN]} is gone, as its server said at each of its "
                "last visits: it is not visited any more; the stat "
                "frontier/recrawl/left counts others like it",
            )
            return None
        return self._put_back(visit, reservation, state)

    # Inside.

    def _schedule(self, visit: Visit) -> Schedule:
        rules = (self._live and self._live.value) or self._default
        schedule = rules.of(visit.url, visit.mime)
        said = visit.meta.get(META)
        if isinstance(said, dict):
            try:
                return changed_by(schedule, said)
            except ValueError as error:
                self._tell_once(
                    "meta",
                    f"{visit.url[:URL_SHOWN]}: its meta[{META!r}] is not heeded: "
                    f"{': '.join(error.args)}",
                )
        return schedule

    def _put_back(self, visit: Visit, reservation: Reservation, state: State) -> Again:
        record = self._codec.decode(reservation.item, reservation.queue)
        priority, dont_filter = visit.began_as
        record |= {"priority": priority, "dont_filter": dont_filter}
        queue = queue_name(split_name(reservation.queue)[1], priority)
        if meta := record.get("meta"):
            record["meta"] = _lasting(meta)
        record[RECRAWL] = state.packed()
        item = self._codec.encode(_plain(record), queue)
        return Again(queue, item, round(self._clock() + state.interval * 1000))

    def _tell_once(self, about: str, message: str) -> None:
        if about not in self._told:
            self._told.add(about)
            logger.warning("%s", message)


def _found(visit: Visit) -> tuple[Answer, Mark | None]:
    """What *visit* found, and the mark of it."""
    answer = Answer.of_status(visit.status) if visit.status else Answer.FAILED
    if answer is not Answer.PAGE:
        return answer, None
    if visit.is_unknown:
        return Answer.FAILED, None
    with suppress(Exception):  # what could not be read is not compared
        if isinstance(visit.mark, asyncio.Future):
            return answer, visit.mark.result()
        stored = visit.request_state.stored
        if visit.mark is None and stored is not None:
            return answer, Mark.of(stored.result().payload_digest.encode())
        return answer, visit.mark
    return answer, None


def _may_follow(origin: Delivery, link: Link) -> bool:
    """Whether *link* may wait in the place of *origin*, where nothing else does."""
    reservation = origin.reservation
    is_over = origin.again or origin.waits or origin.is_given_back
    if reservation is None or is_over:
        return False
    return link.partition == reservation.lease.partition


def _key(request: Request) -> Any:
    """What tells *request* from others that are under way."""
    if request.method == "GET" and not request.body:
        return request.url
    return (request.method, request.url, request.body)


def _is_wanted(request: Request) -> bool:
    """Whether *request*, if it was tested, is one to be fetched again."""
    said = request.meta.get(META)
    if said is False or not request.url.startswith(("http://", "https://")):
        return False
    return bool(said) or (request.method == "GET" and not request.body)


def _carried(value: Any) -> tuple[Any, tuple[int, bool] | None]:
    """The packed state in an item's *value*, and `Visit.began_as`."""
    if isinstance(value, list) and len(value) == 3:
        packed, priority, dont_filter = value
        if type(priority) is int and isinstance(dont_filter, bool):
            return packed, (priority, dont_filter)
    return value, None


def _lasting(meta: Any) -> Any:
    """*meta* without what belongs to a single visit."""
    if not isinstance(meta, dict):
        return meta
    kept = {name: value for name, value in meta.items() if name not in _OF_ONE_VISIT}
    for name in ("redirect_urls", "redirect_reasons"):
        if isinstance(kept.get(name), list):
            kept[name] = kept[name][:MOST_HOPS]
    return kept


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """*record* without empty values, which a request has by default."""
    return {
        name: value
        for name, value in record.items()
        if value or name in {"url", RECRAWL}
    }


def _mime_of(response: Response) -> str:
    content_type = (response.headers.get(b"Content-Type") or b"").decode("latin-1")
    return content_type.partition(";")[0].strip().lower()[:255]


def _text_mark(body: bytes) -> Mark:
    return Mark.of(text_digest(body), of_text=True)
