"""What hangs on a node, and what runs in it: parts, owner, loops.

A *part* is a feature that hangs on the kernel of a node. The kernel knows the hooks of
`Part`, and no part by name. The components are put together in
`frontier.node.node`. What always holds:

1.  If a loop or another task fails for good, the owner is told, once, and
    `unless_broken` returns: nothing waits for what only that would have done.
2.  After `stop` no loop runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from frontier.errors import FrontierError
from frontier.model import Attempt, frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from frontier.node.delivery import Delivery, Link
    from frontier.node.ends import End
    from frontier.node.node import Node
    from frontier.queue.due import Again
    from frontier.queue.push import Push
    from frontier.queue.reserve import Reservation
    from frontier.store.keys import CrawlKeys

logger = logging.getLogger(__name__)

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_Part = TypeVar("_Part", bound="Part")


class Part:
    """A feature of a node: a class that overrides the hooks that it needs.

    A hook that a part does not override is never called. All hooks run in the event
    loop of the node, which crawls nothing while a hook computes: leave what blocks to a
    thread. Parts are called in the order of ``frontier/node/parts.py``, with those of
    ``FRONTIER_NODE_PARTS`` after the archive and the journal, then in the order of
    ``frontier/session/features.py``. An exception in a hook ends the node; other nodes
    fetch what it had reserved.

    A `frontier.queue.reserve.Reservation` is a URL that this node holds.
    """

    @classmethod
    def from_node(cls, node: Node) -> Self:  # noqa: ARG003
        """Build the part for *node*; called for the parts that settings name."""
        return cls()

    def link(self, link: Link) -> bool:  # noqa: ARG002
        """Whether to queue *link*, which may be new; the hook may change it.

        If not, it does not count as seen: it may be found again, and be queued then.
        """
        return True

    def start(
        self,
        request: Any,  # noqa: ARG002
        delivery: Delivery,  # noqa: ARG002
        extra: Mapping[str, Any],  # noqa: ARG002
    ) -> bool:
        """Whether to send *request*, which was taken from a queue; if not, it is done.

        *extra* is what its item says besides.
        """
        return True

    def may_close(self, since: float) -> bool:  # noqa: ARG002
        """Whether the node may close by itself, though the crawl has not ended.

        It has started nothing since *since*, on its monotonic clock.
        """
        return False

    async def quit(self) -> None:
        """Begin nothing more, and return once what was begun is in the store."""

    async def run(self) -> None:
        """Work in the background while the node is open, until cancelled."""

    def room(self) -> bool:
        """Whether one more request may be started now; asked before each, so be quick.

        The engine asks again within five seconds.
        """
        return True

    def begin(self, reservation: Reservation) -> None:
        """Note that the request of *reservation* is started."""

    def stored(self, pushes: Sequence[Push], verdicts: str) -> None:
        """Note what the store has decided about *pushes*: one letter for each.

        ``n`` new, ``s`` seen, ``b`` seen by Bloom alone, ``c`` claimed by a page,
        ``f`` queued without a test.
        """

    def pushed(self, partition: int, pushes: Sequence[Push]) -> None:
        """Note that the store has *pushes*, including those that were seen."""

    def acked(self, reservation: Reservation, again: Again | None) -> None:
        """Note that *reservation* is acked; *again* is its next visit, if any."""

    def note(self, attempt: Attempt) -> None:
        """Note an *attempt* that led to no exchange."""

    async def before_ack(self, reservations: Sequence[Reservation]) -> None:
        """Return once the results of *reservations*, and all before, survive a kill.

        Their links are in the store, and their deliveries may be given an `again`. If
        the node is killed before the ack, they are delivered once more.
        """

    def ended(self, reservations: Sequence[Reservation]) -> None:
        """Note that this node is done with *reservations*, whatever became of them."""

    async def leaving(self) -> None:
        """Pass on what the partitions' next holders need to know about their hosts."""

    def busy(self) -> bool:
        """Whether there is work that the store does not know of.

        A crawl does not end while a node is busy.
        """
        return False

    async def learn(self) -> None:
        """Learn what an operator, or a command, has changed in the crawl."""

    def steered(self) -> None:
        """Note that an operator or the uplink has changed what the node may do."""

    def went_back(self) -> None:
        """Note that the store may have lost writes."""

    def replaced(self) -> None:
        """Note that another server may be the primary of the store."""

    def report(self) -> Mapping[str, Any]:
        """Figures for the crawl's report, by name; asked for once a second."""
        return {}

    def waits_for(self) -> str:
        """What keeps it from storing what is done, such as a full disk, for the log.

        It is empty if there is no such thing.
        """
        return ""

    async def finish(self) -> None:
        """Write what is left; whoever waits for more is told that there is none.

        It is called once more if the node gave up waiting for what is written here.
        """

    async def conclude(self, state: str) -> bool:  # noqa: ARG002
        """Do the work of the last node of a crawl that ended as *state*.

        Return false, and log why, if some of it cannot be done.
        """
        return True

    def tell(self) -> None:
        """Log a summary as the node closes."""


class Features:
    """What a node has besides its kernel; here nothing. See `frontier.node.parts`."""

    async def may_begin(self, node: Node, keys: CrawlKeys) -> bool:  # noqa: ARG002
        """Whether *node* may begin the crawl of *keys*; if not, it looks for another.

        Raises:
            ConfigurationError: It may not.
        """
        return True

    async def open(self, node: Node) -> Sequence[Part]:  # noqa: ARG002
        """Make the parts of *node*, after `Node.build`; `Node.opened` closes them."""
        return ()


NOTHING = Features()


class Parts:
    """The parts of one node, in their order; see `frontier.node.parts`."""

    def __init__(self) -> None:
        self._parts: tuple[Part, ...] = ()
        self._of: dict[type[Part], Part] = {}
        self._hooks: dict[Any, list[Any]] = {}

    def __getitem__(self, kind: type[_Part]) -> _Part:
        """The part of that *kind*."""
        return cast("_Part", self._of[kind])

    def add(self, *parts: Part) -> None:
        """Add *parts* after those that are there."""
        self._parts += parts
        self._of |= {type(part): part for part in parts}
        self._hooks.clear()

    def each(
        self, hook: Callable[Concatenate[Any, _Given], _Result]
    ) -> Sequence[Callable[_Given, _Result]]:
        """The methods for *hook*, such as `Part.report`, of parts that override it."""
        found = self._hooks.get(hook)
        if found is None:
            name = hook.__name__
            having = [p for p in self._parts if getattr(type(p), name) is not hook]
            found = self._hooks[hook] = [getattr(part, name) for part in having]
        return found

    def call(
        self,
        hook: Callable[Concatenate[Any, _Given], object],
        *given: _Given.args,
        **named: _Given.kwargs,
    ) -> None:
        """Call *hook* of all parts."""
        for call in self.each(hook):
            call(*given, **named)

    async def wait(self, hook: Callable[[Any], Awaitable[None]]) -> None:
        """Call *hook* of all parts, one after the other."""
        for call in self.each(hook):
            await call()


@frozen
class Target:
    """A host to probe, and how to reach it."""

    origin: str
    """Scheme, host and port."""
    proxy: str = ""
    """The proxy to use, if its request named one."""


class Owner(Part):
    """What runs a node; it is the first of the node's parts."""

    def on_ready(self) -> None:
        """Note that something can be taken."""

    def on_end(self, end: End) -> None:
        """Note that the node is to close, or that something is not as it should be."""

    async def probe(self, target: Target) -> bool:  # noqa: ARG002
        """Whether the host of *target* answers anything at all."""
        return True


async def before(
    event: asyncio.Event, work: Coroutine[Any, Any, _Result]
) -> asyncio.Task[_Result] | None:
    """The task of *work*, once done; `None` if *event* came first, which cancels it."""
    doing = asyncio.create_task(work)
    # Else asyncio logs the traceback of an error that comes too late to matter.
    doing.add_done_callback(lambda task: task.cancelled() or task.exception())
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait([doing, waiting], return_when="FIRST_COMPLETED")
        return doing if doing.done() else None
    finally:
        for task in (doing, waiting):
            task.cancel()


async def happens(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for *event*, but no longer than *seconds*; return whether it is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


class Tasks(set["asyncio.Task[Any]"]):
    """Tasks under way: a loop alone does not keep them from being collected."""

    def begin(self, doing: Coroutine[Any, Any, Any]) -> None:
        """Do *doing* as one of them."""
        task = asyncio.create_task(doing)
        self.add(task)
        task.add_done_callback(self.discard)


class Loops:
    """Runs loops and other tasks, and tells *on_failure* what ended one of them."""

    def __init__(self, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._tasks: list[asyncio.Task[None]] = []
        self._aside = Tasks()
        self._broken = asyncio.Event()
        """Set when one that others may wait for has failed for good."""

    def start(self, loop: Coroutine[Any, Any, None]) -> None:
        """Run *loop*."""
        self._tasks.append(asyncio.create_task(self._guard(loop)))

    def begin(self, doing: Coroutine[Any, Any, None]) -> None:
        """Do *doing*, which ends by itself, beside the loops; `stop` lets it go on."""
        self._aside.begin(self._guard(doing))

    async def _guard(self, loop: Coroutine[Any, Any, None]) -> None:
        try:
            await loop
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not isinstance(error, FrontierError):  # else the owner says all
                logger.exception("the frontier of this node cannot go on")
            self._broken.set()
            self._on_failure(error)

    async def unless_broken(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do *work*, but stop waiting for it if a loop that it needs has failed."""
        done = await before(self._broken, work)
        return done is not None and done.result() is None

    async def stop(self) -> None:
        """End the loops; again and again, as redis-py may swallow a cancellation."""
        pending = set(self._tasks)
        while pending:
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=0.2)


def answer_time(lease_ttl: float) -> float:
    """Seconds that a server has to answer: another heartbeat is due after that.

    More than it may wait for copies of a write, see `frontier.store.calls`.
    """
    return min(5.0, max(2.5, lease_ttl / 3))
