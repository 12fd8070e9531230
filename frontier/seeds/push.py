"""Turns requests from commands into the pushes that put them into a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frontier.errors import CodecError, NotSerializable
from frontier.queue.item import EXEMPT, encode
from frontier.queue.priority import queue_name
from frontier.queue.push import TEST, Push
from frontier.requests.stored_request import Allowed, Recorder, from_record
from frontier.seeds.read import Seed, SeedFault
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT, QueueAddresses

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

    from frontier.requests.seen_mode import StartTest
    from frontier.settings.config import Config

IS_START = "is_start_request"
"""What Scrapy writes into the ``meta`` of start requests."""


class Pushes:
    """Makes pushes from requests, as the scheduler of a node would.

    *config* is the crawl's; *spider* is the class of its spider, if the project here
    has it. *exempt* requests are fetched even if another scheduler had seen them
    before.
    """

    def __init__(
        self,
        config: Config,
        fingerprint: Callable[[Request], bytes],
        spider: Any,
        allowed: Allowed,
        *,
        exempt: bool,
    ) -> None:
        self._places = QueueAddresses(config)
        self._fingerprint = fingerprint
        # Callbacks are looked up by their names; nothing of the spider is run.
        self._spider = spider and spider.__new__(spider)
        self._recorder = Recorder(self._spider, allowed)
        self._exempt = exempt

    def of(self, given: dict[str, Any]) -> tuple[int, Push]:
        """The push of the request with the record *given*, and its partition.

        The tag of the push is the fingerprint.

        Raises:
            CodecError: It makes no request, or one that nodes would not take from the
                store.
        """
        request = from_record(given, self._spider, self._recorder.allowed)
        fingerprint = self._fingerprint(request)
        slot = request.meta.get(DOWNLOAD_SLOT)
        place = self._places.of(request.url, fingerprint, slot)
        queue = queue_name(place.queue_key, request.priority)
        try:
            record = self._recorder.record(request)
            if self._exempt:
                record[EXEMPT] = True
            item = encode(record, queue)
        except NotSerializable as error:
            raise CodecError(f"{error.where} {error.reason}") from None
        mark = seen_hash(fingerprint)
        push = Push(TEST, mark, queue, request.priority, item, fingerprint)
        return place.partition, push

    def of_seed(self, seed: Seed, start: StartTest) -> list[tuple[int, Push]]:
        """The pushes for *seed*, each with its partition.

        *start* says how the start requests of the crawl are tested.

        Raises:
            SeedFault: It makes no request, or one that nodes would not take from the
                store.
        """
        said = zip(seed._fields, seed, strict=True)
        given = {name: value for name, value in said if value}
        given["meta"] = {**seed.meta, IS_START: True}
        if seed.callback and self._spider is None:
            raise SeedFault("has a callback, but the project here has no spider")
        try:
            partition, push = self.of(given)
        except CodecError as error:
            raise SeedFault(f"makes no request that can be stored: {error}") from None
        if not start.is_apart:
            return [(partition, push)]
        tested = push._replace(mark=seen_hash(start.fingerprint(push.tag)))
        marked = push._replace(queue="", priority=0, item=b"", tag=None)
        return [(partition, one) for one in (marked, tested)[not start.is_seen :]]
