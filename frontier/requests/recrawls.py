"""Recrawls: each page that was fetched is put back, due when its schedule says.

The request of a page is reserved while it is fetched. When all that came of it is
stored, its reservation ends, and in the same step it waits again, with a new state
(`frontier.recrawl.schedule`) and a new due time (`frontier.queue.due`).

What always holds:

1.  A request is put back in the step in which its reservation ends: a kill at any
    moment neither loses a URL of the schedule nor has it there twice.
2.  What is queued instead of a visit in progress (a retry, a redirect to another
    spelling of the same page, the same request from its callback) follows it in the
    schedule, in that step as well. So a URL that passed the seen test once is
    there once, over which ways it was ever found.
3.  A request that is exempt from the seen test is not put back: nothing says that it is
    the only one for its URL. Nor is one that is not GET, unless its ``meta`` says so.
4.  A request waits for its record before it is put back, and for the digest of its
    text: what its state says of a version is on disk.
5.  The schedule of the store is data of unknown origin. What is no state counts as
    none: the URL starts with the first interval.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from scrapy import signals

from frontier.download.body_spool import ARCHIVED_ONLY
from frontier.download.conditional import FLAG
from frontier.queue.due import META as DUE_META
from frontier.queue.due import Again
from frontier.queue.item import RECRAWL
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
from frontier.recrawl.text_digest import is_html, text_digest
from frontier.session.session import REDIRECTS, URL_SHOWN, session_of
from frontier.settings.live_source import Live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response

    from frontier.queue.item import Codec
    from frontier.queue.reserve import Reservation

logger = logging.getLogger(__name__)

META = "frontier_recrawl"
"""Key of ``meta``: false, and the request is fetched once; true, and it is visited
again though it is no GET; or a mapping of what a rule may say of a schedule."""
EXEMPT = b""
"""In the place of a state: what was not tested is not put back."""
RELOAD = 10.0
"""Seconds between two looks at the rule file."""
SETTLE = 10.0
"""Seconds for which a node that closes waits for what its last pages were."""
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
"""Keys of ``meta`` that count within one visit."""


@dataclass(slots=True, eq=False)
class Visit:
    """One visit to a URL of the schedule."""

    state: State | None
    """From before; ``None``: it is the first."""
    began_as: tuple[int, bool] | None = None
    """The priority and ``dont_filter`` of what this took the place of."""
    status: int = 0
    """Of the answer; 0 while there is none."""
    mime: str = ""
    is_unknown: bool = False
    """Whether the answer says nothing of the page: it led to one elsewhere."""
    mark: Mark | asyncio.Future[Mark] | None = None
    """Of the answer, where it does not follow from the record."""
    successor: tuple[dict[str, Any], int, int] | None = None
    """The record, priority and due time of what takes its place."""


class Recrawls:
    """Puts the requests of one process back after their visits."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session_of(crawler)
        config = self._session.config
        default = schedule_of(config)
        self.is_on = default.kind is not Kind.OFF
        """Whether anything is."""
        self._default = Rules(default)
        self._live: Live[Rules] | None = None
        self._under_way: WeakValueDictionary[Any, Request] = WeakValueDictionary()
        """Requests that are visits, by what tells them apart; until they are done."""
        self._told: set[str] = set()
        if self.is_on and config.recrawl_rules is not None:
            self._live = Live(rules_file(config.recrawl_rules, default), RELOAD)
            self._live.load()

    def start(self, codec: Codec) -> None:
        """Listen to what servers answer; read the rules again while the crawl runs."""
        self._codec = codec
        if not self.is_on:
            return
        connect = self._crawler.signals.connect
        connect(self._note_answer, signals.response_downloaded)
        connect(self._note_page, signals.response_received)
        if self._live is not None:
            self._live.start()

    def stop(self) -> None:
        """Read the rules no more."""
        if self._live is not None:
            self._live.stop()

    def leave_to_rounds(self) -> None:
        """Put nothing back: rounds of feeds say when the spider's pages are fetched."""
        if self.is_on:
            self.stop()
            self.is_on = False
            logger.warning(
                "FRONTIER_RECRAWL has no effect on a spider that follows feeds: the "
                "waits of their sites say when its pages are fetched"
            )

    # What the scheduler asks of a request that is to be pushed.

    def mode(self, request: Request, mode: str) -> str:
        """The mode of *request*, which would be *mode* without recrawls.

        The target of a redirect is queued whatever was seen, where a start request led
        to it. Of a page that is visited again and again, each visit would queue one.
        """
        if mode != MARK or not self.is_on:
            return mode
        origin = self._origin(request)
        if origin is None or self._is_same(origin, request):
            return mode
        visit = self._visit(origin)
        is_first = visit is None or visit.state is None
        if is_first and self._session.start_salt:
            return mode  # as seen by others, it would be lost
        return TEST

    def take_over(
        self,
        request: Request,
        mode: str,
        record: dict[str, Any],
        partition: int,
        due: int,
    ) -> bool:
        """Have *request* take the place of a visit in progress, if it is one's.

        It is of *partition*, has *record*, and is due then; *mode* is how it would be
        pushed.
        """
        if mode not in {FORCE, MARK} or not self.is_on:
            return False
        origin = self._under_way.get(_key(request))
        if mode == MARK:
            origin = self._origin(request)
            if origin is None or not self._is_same(origin, request):
                return False
        if origin is None or (visit := self._visit(origin)) is None:
            return False
        reservation = self._session.requests.reservation(origin)
        is_there = reservation and partition == reservation.lease.partition
        if visit.successor is not None or not is_there:
            return False
        visit.successor = (record, request.priority, due)
        return True

    def state_of(self, request: Request, mode: str) -> bytes | None:
        """What the item of *request*, pushed in *mode*, says of its schedule."""
        if not self.is_on or mode not in {FORCE, MARK} or request.meta.get(META):
            return None
        origin = self._origin(request) if mode == MARK else None
        if origin is not None:
            if not self._is_same(origin, request):
                return None
            visit = self._visit(origin)
            if visit is not None:  # the origin stays, and leads here at each visit
                visit.is_unknown = True
        return EXEMPT

    def _origin(self, request: Request) -> Request | None:
        """The visit that a redirect to *request* ended, if there is one."""
        urls = request.meta.get("redirect_urls")
        return self._under_way.get(str(urls[-1])) if urls else None

    def _is_same(self, origin: Request, request: Request) -> bool:
        fingerprint = self._session.fingerprints.of
        return fingerprint(origin) == fingerprint(request)

    # What becomes of a visit.

    def begin(self, request: Request, carried: Any) -> None:
        """Note that *request* is a visit, if it is one; its item *carried* a state."""
        if not self.is_on or not _is_wanted(request):
            return
        packed, began_as = _carried(carried)
        if packed == EXEMPT:
            return
        state = State.unpacked(packed)
        if state is None and packed is not None:
            self._session.count("frontier/recrawl/unreadable")
        delivery = self._session.requests.delivery(request)
        if delivery is None:
            return
        delivery.notes[Visit] = Visit(state, began_as)
        self._under_way[_key(request)] = request

    def note_local(self, request: Request) -> None:
        """*request* is a visit that cannot be stored: it is made once."""
        if not self.is_on or not _is_wanted(request):
            return
        self._session.count("frontier/recrawl/local")
        self._tell_once(
            "local",
            f"{request.url[:URL_SHOWN]} is not fetched again, as its request cannot be "
            "stored; the stat frontier/recrawl/local counts others like it",
        )

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
        has_text = is_html(visit.mime) and ARCHIVED_ONLY not in response.flags
        if has_text and self._schedule(request, visit).text:
            visit.mark = loop.run_in_executor(None, _text_mark, response.body)
        elif self._session.requests.known(request).stored is None:
            visit.mark = loop.run_in_executor(None, _payload_mark, response.body)

    def is_settled(self, request: Request) -> bool:
        """Whether all is known that decides when *request* is due again."""
        state, visit = self._session.requests.known(request), self._visit(request)
        if visit is None:
            return True
        mark = visit.mark
        if isinstance(mark, asyncio.Future) and not mark.done():
            return False
        return state.stored is None or state.stored.done()

    async def settle(self, requests: Iterable[Request]) -> None:
        """Wait until *requests* are settled, but not for long: the node closes."""
        awaited: list[asyncio.Future[Any]] = []
        for request in requests:
            state, visit = self._session.requests.known(request), self._visit(request)
            if visit is None:
                continue
            if isinstance(visit.mark, asyncio.Future):
                awaited.append(visit.mark)
            if state.stored is not None:
                awaited.append(asyncio.wrap_future(state.stored))
        if awaited:
            await asyncio.wait(awaited, timeout=SETTLE)

    def again(
        self, request: Request, reservation: Reservation, now_ms: float
    ) -> Again | None:
        """What is to wait in the place of *request*, whose visit is over."""
        visit = self._visit(request)
        if visit is None:
            return None
        schedule = self._schedule(request, visit)
        answer, mark = self._seen(request, visit)
        finding, state = after(schedule, visit.state, answer, mark)
        if visit.successor is not None:
            return self._succeeded(visit, reservation, state)
        if schedule.kind is Kind.OFF:
            self._session.count("frontier/recrawl/off")
            return None
        is_unsent = self._session.requests.known(request).sent is None
        if finding is Finding.FAILED and is_unsent and visit.state is None:
            return None  # nobody was asked, and it never was a page
        self._session.count(STATS[finding])
        if state is None:
            self._tell_once(
                "left",
                f"{request.url[:URL_SHOWN]} is gone, as its server said at each of its "
                "last visits: it is not visited any more; the stat "
                "frontier/recrawl/left counts others like it",
            )
            return None
        return self._put_back(visit, reservation, state, now_ms)

    def end(self, request: Request) -> None:
        """Forget *request*, with which the engine is done."""
        key = _key(request)
        if self._under_way.get(key) is request:
            del self._under_way[key]

    # Inside.

    def _visit(self, request: Request) -> Visit | None:
        """What is to be learned of *request*, if it is a visit."""
        delivery = self._session.requests.delivery(request)
        return None if delivery is None else delivery.notes.get(Visit)

    def _schedule(self, request: Request, visit: Visit) -> Schedule:
        rules = (self._live and self._live.value) or self._default
        schedule = rules.of(request.url, visit.mime)
        said = request.meta.get(META)
        if isinstance(said, dict):
            try:
                return changed_by(schedule, said)
            except ValueError as error:
                self._tell_once(
                    "meta",
                    f"{request.url[:URL_SHOWN]}: its meta[{META!r}] is not heeded: "
                    f"{error}",
                )
        return schedule

    def _seen(self, request: Request, visit: Visit) -> tuple[Answer, Mark | None]:
        """What the visit found, and the mark of it."""
        answer = Answer.of_status(visit.status) if visit.status else Answer.FAILED
        if answer is not Answer.PAGE:
            return answer, None
        if visit.is_unknown:
            return Answer.FAILED, None
        mark = visit.mark
        if isinstance(mark, Mark):
            return answer, mark
        with suppress(Exception):  # what could not be read is not compared
            if isinstance(mark, asyncio.Future):
                return answer, mark.result() if mark.done() else None
            stored = self._session.requests.known(request).stored
            if stored is not None and stored.done():
                return answer, Mark.of(stored.result().payload_digest.encode())
        return answer, None

    def _put_back(
        self, visit: Visit, reservation: Reservation, state: State, now_ms: float
    ) -> Again:
        record = self._codec.decode(reservation.item, reservation.queue)
        queue = reservation.queue
        if visit.began_as is not None:
            priority, dont_filter = visit.began_as
            record = {**record, "priority": priority, "dont_filter": dont_filter}
            queue = queue_name(split_name(queue)[1], priority)
        if meta := record.get("meta"):
            record["meta"] = _lasting(meta)
        record[RECRAWL] = state.packed()
        item = self._codec.encode(_plain(record), queue)
        return Again(queue, item, round(now_ms + state.interval * 1000))

    def _succeeded(
        self, visit: Visit, reservation: Reservation, state: State | None
    ) -> Again:
        """What takes the place of a visit that was not the last word on its URL."""
        if visit.successor is None:
            raise ValueError("the visit has no successor")
        record, priority, due = visit.successor
        queue = queue_name(split_name(reservation.queue)[1], priority)
        began_as = visit.began_as
        if began_as is None:
            own = self._codec.decode(reservation.item, reservation.queue)
            began_as = (own.get("priority", 0), own.get("dont_filter", False))
        known = state or visit.state
        packed = None if known is None else known.packed()
        record = {**record, RECRAWL: [packed, *began_as]}
        return Again(queue, self._codec.encode(record, queue), due)

    def _tell_once(self, about: str, message: str) -> None:
        if about not in self._told:
            self._told.add(about)
            logger.warning("%s", message)


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
    """The packed state that an item has as *value*, and what it began as."""
    if isinstance(value, list) and len(value) == 3:
        packed, priority, dont_filter = value
        if type(priority) is int and isinstance(dont_filter, bool):
            return packed, (priority, dont_filter)
    return value, None


def _lasting(meta: Any) -> Any:
    """*meta* without what counts within one visit."""
    if not isinstance(meta, dict):
        return meta
    kept = {name: value for name, value in meta.items() if name not in _OF_ONE_VISIT}
    for name in ("redirect_urls", "redirect_reasons"):
        if isinstance(kept.get(name), list):
            kept[name] = kept[name][:MOST_HOPS]
    return kept


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """*record* without what a request has anyway."""
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


def _payload_mark(body: bytes) -> Mark:
    return Mark.of(body)
