"""Requests of another scheduler's queue on their way into a crawl.

What always holds:

1.  A request is tested and queued in one step. One that its scheduler tested, too, is
    tested by its URL; one that it did not (``dont_filter``) by what it is, bytes and
    all. So a queue that is imported again, in whole or in part, queues nothing twice.
2.  What nodes would not take from the store is not put there: it is left out, with
    a reason, and so is what is no plain data. The rest goes on.
3.  What the other scheduler had seen says nothing of these requests: they are in its
    filter since they were queued, and have not been fetched.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from scrapy.utils.misc import build_from_crawler, load_object

from frontier.cluster.shared_settings import FINGERPRINTER
from frontier.errors import CodecError, NotSerializable
from frontier.migrate.scrapy_redis import ItemFault, request_of
from frontier.queue.item import EXEMPT, encode
from frontier.queue.priority import queue_name
from frontier.queue.push import TEST, Push
from frontier.requests.stored_request import Allowed, Recorder, from_record
from frontier.urls.fingerprint import Fingerprints, seen_hash
from frontier.urls.partition import DOWNLOAD_SLOT

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler

    from frontier.migrate.scrapy_redis import Item
    from frontier.settings.config import Config
    from frontier.urls.partition import QueueAddresses


class QueueImport:
    """Makes pushes of the requests of one spider's queue."""

    def __init__(
        self,
        crawler: Crawler,
        config: Config,
        places: QueueAddresses,
        key: str,
    ) -> None:
        cls = crawler.spidercls
        # Callbacks are looked up by their names; nothing of the spider is run.
        self._spider: Spider = cls.__new__(cls)
        self._recorder = Recorder(self._spider, Allowed.of(config))
        fingerprinter = load_object(crawler.settings[FINGERPRINTER])
        made = build_from_crawler(fingerprinter, crawler)
        self._fingerprints = Fingerprints(made, config.canon_rules)
        self._places = places
        self._key = key.encode("utf-8", "surrogateescape")

    def push(self, item: Item) -> tuple[int, Push]:
        """What is to be pushed for *item*, and to which partition.

        Raises:
            ItemFault: It is no request, or none that nodes take from the store.
        """
        found = request_of(item.data)
        try:
            request = from_record(found, self._spider, self._recorder.allowed)
        except CodecError as error:
            raise ItemFault(str(error), found) from None
        fingerprint = self._fingerprints.of(request)
        place = self._places.of(request.url, fingerprint)
        queue_key = place.queue_key
        if slot := request.meta.get(DOWNLOAD_SLOT):
            queue_key = self._places.queue_key_of_slot(place, request.url, slot)
        queue = queue_name(queue_key, request.priority)
        try:
            record: dict[str, Any] = self._recorder.record(request)
            record[EXEMPT] = True
            packed = encode(record, queue)
        except NotSerializable as error:
            raise ItemFault(f"{error.where} {error.reason}", found) from None
        if request.dont_filter:
            fingerprint = hashlib.sha256(self._key + b"\n" + item.data).digest()
        mark = seen_hash(fingerprint)
        push = Push(TEST, mark, queue, request.priority, packed, item)
        return place.partition, push
