"""Live lines: of a running crawl, of a long command. None if stderr is no terminal."""

from __future__ import annotations

import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from frontier.cli.output import messages
from frontier.errors import FrontierError
from frontier.status.durations import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from types import TracebackType
    from typing import Self

    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore

INTERVAL = 1.0
"""Seconds between two looks at the crawl."""
WINDOW = 6
"""Looks over which the speed is taken."""


@contextmanager
def bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar for *total* steps; call what this gives with how many are done.

    *total* is ``None`` where nobody knows it.
    """
    console = messages()
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)


class ProgressLine:
    """Shows what the crawl entered by *node_ids* is doing; `tick` it often."""

    def __init__(
        self,
        store: BlockingStore,
        namespace: str,
        spider: str,
        node_ids: Collection[str],
        since: float,
    ) -> None:
        self._store = store
        self._namespace = namespace
        self._spider = spider
        self._node_ids = node_ids
        self._since = since
        self._began = time.monotonic()
        self._due = 0.0
        self._crawl_id: str | None = None
        self._points: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self._live: Live | None = None

    def __enter__(self) -> Self:
        console = messages()
        if console.is_terminal:
            self._live = Live(
                Text("starting the nodes"),
                console=console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Look again, if there is somebody to show it to and it is time."""
        now = time.monotonic()
        if self._live is None or now < self._due:
            return
        self._due = now + INTERVAL
        try:
            line = self._line()
        except FrontierError as error:  # the nodes wait for the store, so do we
            line = str(error)
        text = Text(line, no_wrap=True, overflow="ellipsis")
        self._live.update(text, refresh=True)

    def _line(self) -> str:
        from frontier.status.snapshot import crawl_entered, snapshot

        if self._crawl_id is None:
            self._crawl_id = crawl_entered(
                self._store,
                self._namespace,
                self._spider,
                self._node_ids,
                self._since,
            )
        waited = duration(time.monotonic() - self._began)
        if self._crawl_id is None:
            return f"starting the nodes, {waited}"
        seen = snapshot(self._store, self._namespace, self._crawl_id)
        archive = seen.totals.archive
        live = sum(node.state == "live" for node in seen.nodes)
        return (
            f"{seen.crawl_id}  {waited}  {live} nodes  {seen.totals.pages:,} pages  "
            f"{self._speed(seen):.0f}/s  queue {seen.queue.ready:,}  "
            f"originals {archive.originals:,}  revisits {archive.revisits:,}"
        )

    def _speed(self, seen: CrawlSnapshot) -> float:
        self._points.append((seen.taken_ms / 1000, seen.totals.pages))
        (first, before), (last, pages) = self._points[0], self._points[-1]
        return (pages - before) / (last - first) if last > first else 0.0
