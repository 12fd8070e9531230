"""A list of seeds that a command puts into a crawl, whether nodes run or not.

What always holds:

1.  A load that was cut off is completed by the same command: all lines are tested once
    more, and what is queued already is not queued again.
2.  A line that is not a seed is reported, with its place, and left out.
"""

from __future__ import annotations

import queue
import secrets
import sys
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from scrapy.spiderloader import get_spider_loader
from scrapy.utils.project import get_project_settings

from frontier.cluster.crawls import BY_FINGERPRINT
from frontier.cluster.seed_lock import SeedLock
from frontier.errors import ConfigurationError, StoreRefused
from frontier.requests.identities import Identities
from frontier.requests.seen_mode import StartTest
from frontier.requests.stored_request import Allowed
from frontier.seeds.push import Pushes
from frontier.seeds.read import (
    SHOWN,
    Line,
    Seed,
    SeedFault,
    lines,
    lines_of_file,
)
from frontier.seeds.seeder import Seeder
from frontier.seen.config import seen_config
from frontier.seen.imported_filter import about_call
from frontier.settings.config import Config
from frontier.status.validate import printable
from frontier.store.calls import Copies
from frontier.store.client import BlockingStore, Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.queue.push import Push
    from frontier.seen.seen_set import StoredCrawl

STDIN = "-"
BATCH = 10_000
"""Seeds that are pushed together."""
PATIENCE = 0.5
"""Seconds to wait for more lines of standard input."""


@dataclass(slots=True)
class Loaded:
    """What became of the lines."""

    crawl_id: str
    queued: int = 0
    seen_already: int = 0
    left_out: int = 0


def load_list(
    store: BlockingStore,
    crawl: StoredCrawl,
    targets: Sequence[str],
    tell: Callable[[str], None],
    progress: Callable[[int], None],
) -> Loaded:
    """Put the seeds of *targets* that are not there yet into *crawl*.

    A target is a URL, a JSON object, a file of them, or `STDIN`. *tell* is told what is
    no seed, and *progress* how many are done.

    Raises:
        ConfigurationError: The crawl has no queue, or belongs to another project; or a
            file cannot be read (any more: see `require_files`).
        PushForgotten: The store may not have all of them.
    """
    keys = crawl.keys
    done = Loaded(keys.crawl_id)
    if crawl.config.queue_key == BY_FINGERPRINT:
        raise ConfigurationError(
            f"the crawl {done.crawl_id} has no queue: a duplicate filter made it"
        )
    config = Config.from_settings(get_project_settings())
    pushes_of = _pushes_of(store, crawl, config)
    lock = SeedLock(keys, f"seeds-{secrets.token_hex(8)}")
    _wait_for_copies(store, config)
    seeder = Seeder(store, keys, seen_config(crawl.config))
    waiting: list[tuple[int, Push]] = []
    number = 0
    lock.hold(store)
    for line in _lines_of(targets):
        if line is not None:
            number += 1
            try:
                waiting += pushes_of(line.seed())
            except SeedFault as fault:
                text = printable(line.text[:SHOWN])
                shown = f"{text!r} " if text else ""
                done.left_out += 1
                tell(f"{line.place}: {shown}{printable(str(fault))}; skipped")
        if line is None or len(waiting) >= BATCH:  # None: no more for now
            seeder.push(waiting)
            waiting = []
            lock.hold(store)
            progress(number)
    seeder.push(waiting)
    seeder.leave()
    store.call(lock.done_call())
    done.queued, done.seen_already = seeder.new, seeder.seen
    return done


def _pushes_of(
    store: BlockingStore, crawl: StoredCrawl, config: Config
) -> Callable[[Seed], list[tuple[int, Push]]]:
    """Makes pushes as the nodes of *crawl* would; *config* is the project's."""
    asked = [Call.command("HGET", crawl.keys.meta, "start_salt")]
    salt, imported = store.run([*asked, about_call(crawl.keys)])
    loader = get_spider_loader(get_project_settings())
    spider: type[Any] | None = None
    if crawl.spider in loader.list():
        spider = loader.load(crawl.spider)
    pushes = Pushes(
        crawl.config,
        Identities(crawl).fingerprint,
        spider,
        Allowed.of(config),
        # The operator wants them, whatever was seen before the crawl.
        exempt=imported is not None,
    )
    start = StartTest(salt or b"", crawl.config.seen_start)
    return partial(pushes.of_seed, start=start)


def _wait_for_copies(store: BlockingStore, config: Config) -> None:
    """Have seeds count as stored only with the copies that *config* asks for.

    Raises:
        ConfigurationError: A server cannot wait for them.
    """
    copies = Copies(config.store_wait_replicas, config.store_wait_aof)
    if copies:
        try:
            store.call(copies.probe())
        except StoreRefused as error:
            raise copies.refused(store.where, str(error)) from None
    store.copies = copies


def require_files(targets: Sequence[str]) -> None:
    """Refuse *targets* of which a file cannot be read.

    Raises:
        ConfigurationError: It names the file.
    """
    for target in filter(_is_file, targets):
        next(lines_of_file(target), None)


def _is_file(target: str) -> bool:
    text = target.lstrip()
    return not ("://" in text or text.startswith("{") or text == STDIN)


def _lines_of(targets: Sequence[str]) -> Iterator[Line | None]:
    for number, target in enumerate(targets, 1):
        if target == STDIN:
            yield from _arriving("standard input", sys.stdin.buffer)
        elif _is_file(target):
            yield from lines_of_file(target)
        else:
            yield Line(f"argument {number}", target.strip())


def _arriving(name: str, file: Any) -> Iterator[Line | None]:
    """The lines of *file*, and ``None`` whenever no more have come for a while."""
    read: queue.Queue[Line | None] = queue.Queue(BATCH)

    def run() -> None:
        try:
            for line in lines(name, file):
                read.put(line)
        finally:
            read.put(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while True:
        try:
            line = read.get(timeout=PATIENCE)
        except queue.Empty:
            yield None
        else:
            if line is None:
                return
            yield line
