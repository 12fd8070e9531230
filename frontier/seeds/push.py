"""Seeds as the pushes that put them into a crawl."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy import Request

from frontier.errors import NotSerializable
from frontier.queue.item import EXEMPT, encode
from frontier.queue.priority import queue_name
from frontier.queue.push import TEST, Push
from frontier.requests.stored_request import Recorder, is_callback
from frontier.seeds.read import SeedFault
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.requests.seen_mode import StartTest
    from frontier.requests.stored_request import Allowed
    from frontier.seeds.read import Seed
    from frontier.urls.partition import QueueAddresses

IS_START = "is_start_request"
"""What Scrapy writes into the ``meta`` of start requests."""


@dataclass(frozen=True, slots=True)
class SeedPushes:
    """Makes pushes of seeds, as the scheduler of a node would of start requests."""

    places: QueueAddresses
    fingerprint: Callable[[Request], bytes]
    spider: type[Any] | None
    """The class of the crawl's spider, if the project here has it."""
    start: StartTest
    allowed: Allowed
    exempt: bool = False
    """Whether they are fetched though another scheduler had seen them before."""

    def of(self, seed: Seed) -> list[tuple[int, Push]]:
        """What is to be pushed for *seed*: partitions, and what to each.

        Raises:
            SeedFault: It makes no request, or one that cannot be stored.
        """
        try:
            return self._of(seed)
        except NotSerializable as error:
            raise SeedFault(f"cannot be stored: {error.where} {error.reason}") from None
        except (TypeError, ValueError, AttributeError) as error:
            if isinstance(error, SeedFault):
                raise
            raise SeedFault(f"makes no request: {error}") from None

    def _of(self, seed: Seed) -> list[tuple[int, Push]]:
        request = Request(
            seed.url,
            method=seed.method,
            headers=dict(seed.headers),
            body=seed.body,
            meta={**seed.meta, IS_START: True},
            priority=seed.priority,
            cb_kwargs=dict(seed.cb_kwargs),
        )
        spider: Any = self.spider
        record = Recorder(spider, self.allowed).record(request)
        if name := seed.callback:
            if self.spider is None:
                raise SeedFault("has a callback, but the project here has no spider")
            if not is_callback(self.spider, name):
                raise SeedFault(
                    f"has the callback {name!r}, which is none of its spider"
                )
            record["callback"] = name
        if self.exempt:
            record[EXEMPT] = True
        fingerprint = self.fingerprint(request)
        place = self.places.of(request.url, fingerprint)
        queue_key = place.queue_key
        if slot := seed.meta.get(DOWNLOAD_SLOT):
            queue_key = self.places.queue_key_of_slot(place, request.url, slot)
        queue = queue_name(queue_key, seed.priority)
        pushes = []
        if self.start.is_apart:
            if self.start.is_seen:
                pushes.append(Push(TEST, seen_hash(fingerprint), "", 0, b""))
            fingerprint = self.start.fingerprint(fingerprint)
        item = encode(record, queue)
        pushes.append(Push(TEST, seen_hash(fingerprint), queue, seed.priority, item))
        return [(place.partition, push) for push in pushes]
