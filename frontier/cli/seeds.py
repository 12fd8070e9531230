"""``frontier crawl seed``: put seeds into a crawl, running or not."""

from __future__ import annotations

import hashlib
import queue
import secrets
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from frontier.cli.command import CrawlOptions, Output, argument, options
from frontier.cli.output import ExitCode, Shown, bar, complain, say
from frontier.errors import ConfigurationError, PushForgotten, StoreRefused
from frontier.files import open_input
from frontier.seeds.read import Line, SeedFault, lines, read_line
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.queue.push import Push
    from frontier.seeds.load_once import Seeder
    from frontier.seeds.read import Seed
    from frontier.seen.seen_set import StoredCrawl
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore

    PushesOf = Callable[[Seed], list[tuple[int, Push]]]

STDIN = "-"
BATCH = 10_000
"""Seeds that are pushed together."""
PATIENCE = 0.5
"""Seconds for which more lines of standard input are waited for."""
SHOWN = 200
"""Characters of a line in a message."""


@dataclass(slots=True)
class Counts:
    """What became of the lines."""

    lines: int = 0
    """Those that are done, in the order in which they were given."""
    skipped: int = 0
    """Those that an earlier run had done."""
    faulty: int = 0


@options
class SeedOptions(Output, CrawlOptions):
    """Which seeds are added to which crawl."""

    targets: list[str] = argument("URL|FILE|-", "- is standard input.")


def seed(given: SeedOptions) -> Shown:
    """Add seeds to an open crawl, whether nodes run or not.

    A seed is a URL, or a JSON object with url, method, headers, body, meta,
    priority, callback and cb_kwargs; a file has one a line. A line that is not
    a seed is named and left out. To finish an interrupted load, run it again.

    Examples:
        frontier crawl seed https://example.org/ seeds.txt
        frontier crawl seed - --crawl news-7 < seeds.txt
    """
    from scrapy.utils.project import get_project_settings

    from frontier.cluster.crawls import BY_FINGERPRINT
    from frontier.seeds.load_once import Seeder, SeedLock
    from frontier.seen.config import seen_config
    from frontier.settings.config import Config

    list_id = _list_id(given.targets)
    with given.connected() as store:
        crawl = given.stored(store)
        chosen = crawl.keys.crawl_id
        if crawl.config.queue_key == BY_FINGERPRINT:
            raise ConfigurationError(
                f"the crawl {chosen} has no queue: a duplicate filter made it"
            )
        config = Config.from_settings(get_project_settings())
        pushes_of = _pushes_of(store, crawl, config)
        _wait_for_copies(store, config)
        lock = SeedLock(crawl.keys, list_id, on_wait=_waits)
        seeder = Seeder(store, crawl.keys, seen_config(crawl.config))
        with bar("seeds", None) as progress:
            try:
                hold = partial(lock.hold, store)
                lines = _lines_of(given.targets)
                counts = _load(lines, pushes_of, seeder, hold, progress)
            except PushForgotten:
                store.call(lock.start_over_call())
                raise
        store.call(lock.done_call())
    said = {
        "crawl_id": chosen,
        "queued": seeder.queued,
        "seen_already": seeder.seen,
        "left_out": counts.faulty,
        "done_before": counts.skipped,
    }
    return Shown(said, code=ExitCode.INCOMPLETE if counts.faulty else ExitCode.OK)


def _load(
    lines: Iterator[Line | None],
    pushes_of: PushesOf,
    seeder: Seeder,
    hold: Callable[[int], int],
    progress: Callable[[int], None],
) -> Counts:
    """Push what *lines* say; ``None`` among them means that no more has come yet."""
    counts = Counts()
    counts.skipped = hold(0)
    waiting: list[tuple[int, Push]] = []
    for line in lines:
        if line is not None:
            counts.lines += 1
            if counts.lines > counts.skipped:
                waiting += _of(line, pushes_of, counts)
        if line is None or len(waiting) >= BATCH:
            seeder.push(waiting)
            waiting = []
            hold(counts.lines)
            progress(counts.lines)
    seeder.push(waiting)
    seeder.leave()
    return counts


def _waits() -> None:
    say("another command loads this list; waiting for it")


def _of(line: Line, pushes_of: PushesOf, counts: Counts) -> list[tuple[int, Push]]:
    fault = line.fault
    try:
        found = None if fault else read_line(line.text)
        if found is not None:
            return pushes_of(found)
    except SeedFault as raised:
        shown = printable(line.text.strip()[:SHOWN])
        fault = f"{shown!r} {printable(str(raised))}"
    if fault:
        counts.faulty += 1
        complain(f"{line.place}: {fault}; skipped")
    return []


def _pushes_of(store: BlockingStore, crawl: StoredCrawl, config: Config) -> PushesOf:
    """What makes pushes as the nodes of *crawl* would; *config* is the project's."""
    from scrapy.spiderloader import get_spider_loader
    from scrapy.utils.project import get_project_settings

    from frontier.cli.project import Identities
    from frontier.requests.seen_mode import StartTest
    from frontier.requests.stored_request import Allowed
    from frontier.seeds.push import Pushes
    from frontier.seen.imported_filter import about_call
    from frontier.store.client import Call

    asked = [Call.command("HGET", crawl.keys.meta(), "start_salt")]
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
        # An operator asks for them, whatever was seen before the crawl.
        exempt=imported is not None,
    )
    start = StartTest(salt or b"", crawl.config.seen_start)
    return partial(pushes.of_seed, start=start)


def _wait_for_copies(store: BlockingStore, config: Config) -> None:
    """Have seeds count as stored when they are where *config* wants them.

    Raises:
        ConfigurationError: A server cannot wait for that.
    """
    from frontier.store.calls import Copies

    copies = Copies(config.store_wait_replicas, config.store_wait_aof)
    if copies:
        try:
            store.call(copies.probe())
        except StoreRefused as error:
            raise copies.refused(store.where, str(error)) from None
    store.copies = copies


def _is_file(target: str) -> bool:
    return "://" not in target and not target.lstrip().startswith("{")


def _list_id(targets: list[str]) -> str:
    """What *targets* are called in the store.

    A list is known by its contents, so that one that was changed is another.
    Standard input cannot be read twice: it is a new list each time.

    Raises:
        ConfigurationError: A file cannot be read.
    """
    digest = hashlib.sha256()
    for target in targets:
        if target == STDIN:
            digest.update(secrets.token_bytes(16))
        elif not _is_file(target):
            digest.update(target.encode("utf-8", "surrogateescape") + b"\n")
        else:
            try:
                with open_input(Path(target)) as file:
                    while data := file.read(1 << 20):
                        digest.update(data)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise ConfigurationError(
                    f"{target[:SHOWN]!r} is neither a URL nor a file: {reason}"
                ) from None
    return f"seeds-{digest.hexdigest()[:16]}"


def _lines_of(targets: list[str]) -> Iterator[Line | None]:
    for number, target in enumerate(targets, 1):
        if target == STDIN:
            yield from _arriving("standard input", sys.stdin.buffer)
        elif _is_file(target):
            with open_input(Path(target)) as file:
                yield from lines(printable(target[:SHOWN]), file)
        else:
            yield Line(f"argument {number}", target)


def _arriving(name: str, file: Any) -> Iterator[Line | None]:
    """The lines of *file*, and ``None`` where no more have come for a while."""
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
