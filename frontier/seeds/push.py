"""Seeds as the pushes that put them into a crawl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request

from frontier.errors import NotSerializable
from frontier.queue.item import EXEMPT, encode
from frontier.queue.priority import queue_name
from frontier.queue.push import TEST, Push
from frontier.requests.stored_request import Allowed, is_callback
from frontier.seeds.read import Seed, SeedFault, is_plain
from frontier.urls.fingerprint import of_plain_get, seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from frontier.requests.seen_mode import StartTest
    from frontier.urls.partition import QueueAddresses

IS_START = "is_start_request"
"""What Scrapy writes into the ``meta`` of start requests."""


class SeedPushes:
    """Makes pushes of seeds, as the scheduler of a node would of start requests.

    *is_scrapys* is whether the fingerprint is Scrapy's own.
    """

    def __init__(
        self,
        places: QueueAddresses,
        fingerprint: Callable[[Request], bytes],
        *,
        spider: type[Any] | None,
        name: str,
        start: StartTest,
        is_scrapys: bool = False,
        allowed: Allowed | None = None,
    ) -> None:
        self._places = places
        self._fingerprint = fingerprint
        self._spider = spider
        self._name = name
        self._start = start
        self._is_scrapys = is_scrapys
        self._allowed = allowed or Allowed()
        self.exempt = False
        """Whether they are fetched though another scheduler had seen them before."""

    def of(self, seed: Seed) -> list[tuple[int, Push]]:
        """What is to be pushed for *seed*: partitions, and what to each.

        Raises:
            SeedFault: It makes no request, or one that cannot be stored.
        """
        if self._is_scrapys and seed == Seed(seed.url) and is_plain(seed.url):
            # What the rest comes to, in a tenth of the time.
            fingerprint = of_plain_get(seed.url)
            if fingerprint is not None:
                record = {"url": seed.url, "meta": {IS_START: True}}
                return self._made(seed, fingerprint, record)
        if seed.callback:
            self._require_method(seed.callback)
        where, why = self._allowed.refused(seed.url, seed.meta)
        if where:
            raise SeedFault(f"is not taken by nodes: {where} {why}")
        try:
            request = Request(
                seed.url,
                method=seed.method,
                headers=dict(seed.headers) or None,
                body=seed.body or None,
                meta=dict(seed.meta),
            )
            return self._made(seed, self._of(request), _record(seed, request))
        except NotSerializable as error:
            raise SeedFault(f"cannot be stored: {error.where} {error.reason}") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise SeedFault(f"makes no request: {error}") from None

    def _made(
        self, seed: Seed, fingerprint: bytes, record: Mapping[str, Any]
    ) -> list[tuple[int, Push]]:
        url = record["url"]
        place = self._places.of(url, fingerprint)
        number = place.partition
        queue_key = place.queue_key
        if slot := seed.meta.get(DOWNLOAD_SLOT):
            queue_key = self._places.queue_key_of_slot(place, url, slot)
        queue = queue_name(queue_key, seed.priority)
        pushes = []
        if self._start.is_apart:
            if self._start.is_seen:
                pushes.append((number, Push(TEST, seen_hash(fingerprint), "", 0, b"")))
            fingerprint = self._start.fingerprint(fingerprint)
        if self.exempt:
            record = {**record, EXEMPT: True}
        item = encode(record, queue)
        push = Push(TEST, seen_hash(fingerprint), queue, seed.priority, item, seed)
        return [*pushes, (number, push)]

    def _of(self, request: Request) -> bytes:
        is_plain = request.method == "GET" and not request.body
        if self._is_scrapys and is_plain and not request.meta.get("verbatim_url"):
            return of_plain_get(request.url) or self._fingerprint(request)
        return self._fingerprint(request)

    def _require_method(self, name: str) -> None:
        if self._spider is None:
            raise SeedFault(
                f"has a callback, but the project here has no spider {self._name}"
            )
        if not is_callback(self._spider, name):
            raise SeedFault(
                f"has the callback {name!r}, which is none of the spider {self._name}"
            )


def _record(seed: Seed, request: Request) -> Mapping[str, Any]:
    record: dict[str, Any] = {
        "url": request.url,
        "meta": {**seed.meta, IS_START: True},
    }
    if seed.callback:
        record["callback"] = seed.callback
    if request.method != "GET":
        record["method"] = request.method
    if seed.priority:
        record["priority"] = seed.priority
    if request.headers:
        record["headers"] = dict(dict.items(request.headers))
    if request.body:
        record["body"] = request.body
    if seed.cb_kwargs:
        record["cb_kwargs"] = dict(seed.cb_kwargs)
    return record
