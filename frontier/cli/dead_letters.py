"""``frontier crawl dead`` and ``requeue``: what a crawl has given up."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from frontier.cli.options import CrawlOptions, Output
from frontier.cli.output import ExitCode, complain, say, show_json
from frontier.errors import ConfigurationError
from frontier.status.validate import printable, text

if TYPE_CHECKING:
    from frontier.queue.dead_letters import Letter
    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore


@dataclass(frozen=True, slots=True)
class _Found:
    crawl: StoredCrawl
    total: int
    letters: list[Letter]


def dead(
    options: CrawlOptions,
    output: Output,
) -> None:
    """List the dead letters: requests that were given up, and why."""
    with options.connected() as store:
        found = _read(store, options)
    rows = [
        {
            "url": printable(one.url),
            "reason": text(one.reason),
            "queue": printable(one.queue),
            "partition": one.partition,
        }
        for one in found.letters
    ]
    lines = [f"{row['url'] or '(unreadable request)'}: {row['reason']}" for row in rows]
    if found.total > len(found.letters):
        lines.append(f"and {found.total - len(found.letters):,} more")
    output.result(
        {
            "crawl_id": found.crawl.keys.crawl_id,
            "dead": found.total,
            "letters": rows,
        },
        map(Text, lines or ["nothing was given up"]),
    )


def requeue(
    options: CrawlOptions,
    output: Output,
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="URL", show_default=False)
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Requeue all that can be read.")
    ] = False,
) -> None:
    """Queue dead letters again, in an open crawl: those of a URL, or all."""
    wanted = {url.strip() for url in urls or ()}
    if bool(wanted) == every:
        raise ConfigurationError("requeue needs either URLs or --all")
    with options.connected() as store:
        done = _revive(store, options, wanted, every=every)
    if output.as_json:
        show_json(asdict(done))
    else:
        say(f"{done.requeued:,} requests are queued again, {done.left:,} are left")
    for url in sorted(wanted):
        complain(f"{printable(url)!r} was not given up, or was requeued already")
    if wanted:
        raise typer.Exit(ExitCode.INCOMPLETE)


@dataclass(slots=True)
class _Revived:
    crawl_id: str = ""
    requeued: int = 0
    left: int = 0


def _revive(
    store: BlockingStore, options: CrawlOptions, wanted: set[str], *, every: bool
) -> _Revived:
    """Requeue those that are *wanted*, or *every* one; take what is found from it."""
    from frontier.queue.dead_letters import revive
    from frontier.seeds.load_once import SeedLock, tell_holders

    done = _Revived()
    while True:  # what is read at once is capped
        found = _read(store, options)
        keys = found.crawl.keys
        chosen = [
            one for one in found.letters if one.url and (every or one.url in wanted)
        ]
        done.crawl_id, done.left = keys.crawl_id, found.total - len(chosen)
        wanted -= {one.url for one in chosen}
        if not chosen:
            return done
        # As for seeds: the crawl must not end while they are on their way.
        lock = SeedLock(store, keys, f"requeue-{secrets.token_hex(8)}", "requeue")
        lock.hold(0)
        count, became_ready = revive(store, keys, chosen)
        tell_holders(store, keys, became_ready)
        lock.done()
        done.requeued += count
        if not count or not done.left:
            return done


def _read(store: BlockingStore, options: CrawlOptions) -> _Found:
    from frontier.queue.dead_letters import counted, letters

    crawl = options.crawl(store)
    counts = counted(store, crawl.keys, crawl.config.partitions)
    found = list(letters(store, crawl.keys, counts))
    return _Found(crawl, sum(counts.values()), found)
