"""``frontier crawl status``: the report of a crawl, once or again and again."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.text import Text

from frontier.cli.command import Archive, ReportOptions, flag, option, options
from frontier.cli.output import (
    ExitCode,
    Shown,
    complain,
    end_with,
    results,
    show,
    show_json,
    table,
)
from frontier.errors import ConfigurationError, CrawlLost, StoreUnavailable
from frontier.status.text import local_moment as when

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.cli.report import WarcFiles
    from frontier.status.views import CrawlSnapshot
    from frontier.status.watch import Watch, Watched
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys


@options
class StatusOptions(Archive, ReportOptions):
    """What of a crawl is shown, and how often."""

    hosts: bool = flag("List hosts: queues, errors, who is left alone.")
    nodes: bool = flag("List nodes alone: live, silent, lost, or left.")
    log: bool = flag("List what operators did to the crawl.")
    again: bool = flag("Refresh until the crawl ends or you press Ctrl-C.", "--watch")
    every: float = option(
        1.0, "SECONDS", "Pause between refreshes of --watch.", within=(0.2, 3600)
    )


def status(given: StatusOptions) -> Shown | None:
    """Show the report of a crawl, running or not.

    With --watch and --json it prints one object a line.

    Examples:
        frontier crawl status
        frontier crawl status --hosts
        frontier crawl status --watch
    """
    from frontier.status.watch import Watch

    if given.log and (given.nodes or given.hosts or given.again):
        raise ConfigurationError("--log cannot be combined with other options")
    with given.connected() as store:
        keys = given.keys(store)
        if given.log:
            return _log(store, keys)
        watch = Watch(store, given.namespace, keys.crawl_id)
        found = _watched(watch, given) if given.again else watch.look()
        if found is None:
            return None
        waiting = _uncommitted_in(store, keys, found.crawl)
    if not given.again:
        code, faults = _ended(found.crawl, waiting)
        said, report = _facts(found, given), _report(found, given)
        return Shown(said, report, faults=faults, code=code)
    if found.crawl.state != "open":
        code, faults = _ended(found.crawl, waiting, failed=True)
        end_with(faults, code)
    return None


def _log(store: BlockingStore, keys: CrawlKeys) -> Shown:
    """List what operators have done to a crawl while it ran, the oldest first."""
    from frontier.cluster.controls import KEPT
    from frontier.status.snapshot import read_crawl

    found = read_crawl(store, keys).controls
    entries = [asdict(entry) for entry in found.log]
    lines = [(when(one.at_ms), one.who, one.verb, one.what) for one in found.log]
    shown: list[RenderableType] = ["nothing was changed"]
    if lines:
        shown = [table("when", "who", "has", "what", rows=lines)]
    if len(entries) == KEPT:
        shown.append(f"these are the last {KEPT}")
    said = {"crawl_id": keys.crawl_id, "entries": entries, "damaged": found.strange}
    return Shown(said, shown, faults=[f"damaged, left out: {o}" for o in found.strange])


def _uncommitted_in(
    store: BlockingStore, keys: CrawlKeys, seen: CrawlSnapshot
) -> list[str]:
    """The collections that wait for its payloads, if it ended and no node lives."""
    from frontier.collection.summary import uncommitted_in

    over = seen.state in {"finished", "limit", "canceled"}
    if not over or any(node.state == "leaving" for node in seen.nodes):
        return []
    return uncommitted_in(store, keys)


def _ended(
    seen: CrawlSnapshot, waiting: list[str], *, failed: bool = False
) -> tuple[ExitCode, list[str]]:
    """The exit code for *seen*, and why; with *failed*, no page is a failure, too.

    *waiting* are the collections in which its payloads are uncommitted.
    """
    from frontier.collection.summary import undone

    if seen.lost:
        return ExitCode.CRAWL_FAILED, [str(CrawlLost(seen.crawl_id))]
    if seen.harmed:
        return ExitCode.FAULTY, [seen.harm]
    if seen.left_out:
        return ExitCode.INCOMPLETE, [seen.left_out]
    if failed and seen.has_failed:
        no_page = f"{seen.crawl_id} has ended without one page"
        return ExitCode.CRAWL_FAILED, [no_page]
    lines = undone(seen.crawl_id, waiting, canceled=seen.state == "canceled")
    return (ExitCode.INCOMPLETE if lines else ExitCode.OK), lines


def _files(found: Watched, how: StatusOptions) -> WarcFiles:
    from frontier.cli.report import WarcFiles

    return WarcFiles.of(how.warc_dir.absolute(), found.crawl.crawl_id)


def _facts(found: Watched, how: StatusOptions) -> dict[str, Any]:
    """*found* as data, for ``--json``."""
    from frontier.status.document import watch_document

    files = _files(found, how)
    named = [{"name": name, "bytes": size} for name, size in files.sizes]
    warcs = {"directory": str(files.directory), "files": named}
    return {**watch_document(found), "warcs": warcs}


def _report(found: Watched, how: StatusOptions) -> Iterator[RenderableType]:
    from frontier.cli.report import crawl_report, nodes_report

    if how.nodes:
        return nodes_report(found)
    return crawl_report(found, _files(found, how), hosts=how.hosts)


def _watched(watch: Watch, how: StatusOptions) -> Watched | None:
    """Show each look until the crawl ends, or Ctrl-C; return the last one, if any.

    On a terminal each look replaces the one before. Elsewhere it is a line, or an
    object.
    """
    from rich.live import Live

    from frontier.status.sections import one_line

    console, found = results(), None
    is_drawn = console.is_terminal and not how.as_json
    live = Live(console=console, auto_refresh=False)
    try:
        with live if is_drawn else nullcontext():
            while found is None or found.crawl.state == "open":
                due, error = time.monotonic() + how.every, ""
                try:
                    found = watch.look()
                except StoreUnavailable as unavailable:
                    error = str(unavailable)
                if is_drawn:
                    told = [Text(error, style="bold")] if error else []
                    parts = _report(found, how) if found is not None else ()
                    live.update(Group(*told, *parts), refresh=True)
                elif error or found is None:
                    complain(error)
                elif how.as_json:
                    show_json(_facts(found, how), indent=None)
                elif how.nodes:
                    show(_report(found, how))
                else:
                    line = one_line(found.crawl)
                    console.print(
                        f"{when(found.crawl.taken_ms)} {line}", soft_wrap=True
                    )
                console.file.flush()
                if found is None or found.crawl.state == "open":
                    time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        pass
    return found
