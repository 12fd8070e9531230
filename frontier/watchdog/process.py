"""What the watchdog's own process does; see `frontier.watchdog`.

It starts with little more than the standard library, as there is one for each node:
the client of the store is imported when it is first needed, or at once if leases are
too short for that.

What always holds:

1.  A heartbeat is sent only while the node's loop stands still and its process exists
    and is not stopped. If the state of the process cannot be found out, none is sent.
2.  The node is told when an answered heartbeat was sent, on the clock that both share,
    and only if the answer came before the deadline that the node had by then. So a
    watchdog that was frozen reports nothing untrue, and a node that wakes up late knows
    that others have what it had.
3.  It knows nothing of leases: they depend on the node's name on the map of members.
4.  It ends with its node, when the pipe closes, and when its parent is another process.
5.  It never ends its node.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from frontier.watchdog.memory import Memory, Running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.store.client import BlockingStore, Call
    from frontier.store.keys import CrawlKeys

LONGEST_LOOK = 1.0
"""Seconds between two looks, at most; an eighth of a lease, if that is less."""
SHORT = 6.0
"""Seconds of a lease; if it is shorter, the store's client is imported at once."""
RETRY = 0.2
"""Seconds after which a store that did not answer is asked again."""
PARTING = 2.0
"""Seconds to wait for a node that has closed its pipe to be gone."""
STOPPED = frozenset("TtZXx")
"""States of a process that does nothing: stopped, traced, or dead."""


def state_of(process: int) -> str:
    """The state of *process* as a letter, as in ps(1); empty if it is not known."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
        return stat.rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def say(message: str, settings: Mapping[str, Any]) -> None:
    """Write a line in the format of the node's log, to the node's standard error."""
    if settings["log_format"] == "json":
        from frontier import json_log

        names = {"node": str(settings["node_id"]), "crawl": str(settings["crawl"])}
        now = time.time()
        line = json_log.line(now, "WARNING", "frontier.watchdog", message, **names)
    else:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        text = "".join(c if c.isprintable() else "?" for c in message)
        line = f"{when} [frontier.watchdog] WARNING: {text}"
    with suppress(OSError):
        os.write(2, f"{line}\n".encode())


class Watch:
    """Watches one node, and stands in for it."""

    def __init__(self, memory: Memory, settings: dict[str, Any]) -> None:
        self._memory = memory
        self._settings = settings
        self._parent = int(settings["process"])
        self._node_id = str(settings["node_id"])
        self._ttl = float(settings["ttl"])
        self._busy_max = float(settings["busy_max"])
        self.interval = min(LONGEST_LOOK, self._ttl / 8)
        self._store: BlockingStore | None = None
        self._turns = memory.turns
        self._looked = time.monotonic()
        self._silent = 0.0
        """Seconds for which the loop has stood still, excluding time in which the node
        was stopped or this process frozen."""
        self._busy = 0.0
        """Those of them since the code of another request was last seen to run: the
        loop need not turn between two callbacks."""
        self._ran: Running | None = None
        """The request whose code was last seen to run."""
        self._due = 0.0
        self._told = False
        self._over = False
        """Whether there is nothing to do until the loop turns again."""

    def _say(self, message: str) -> None:
        """Write *message* to the node's log."""
        say(message, self._settings)

    @property
    def lives(self) -> bool:
        """Whether the node is still the parent of this process."""
        return os.getppid() == self._parent

    def look(self) -> None:
        """Check whether the loop turns; if it does not, do what is due."""
        now = time.monotonic()
        elapsed = min(now - self._looked, 2 * self.interval)
        self._looked = now
        if self._memory.turns != self._turns:
            self._turns = self._memory.turns
            self._silent = self._busy = self._due = 0.0
            self._told = self._over = False
            return
        if self._is_stopped():
            return
        self._silent += elapsed
        self._busy += elapsed
        running = self._memory.running
        if running is not None and running.partition >= 0 and running != self._ran:
            self._ran, self._busy, self._told = running, 0.0, False
        if self._silent < self._late or self._over:
            return
        if self._busy >= self._ttl and not self._told:
            self._told = True
            self._say(
                f"{self._what(running)} has kept node {self._node_id} "
                f"busy for {self._busy:.0f} s; it keeps its leases for at most "
                f"{self._busy_max:g} s (FRONTIER_BUSY_MAX)"
            )
        if now >= self._due:
            self._due = now + RETRY
            with suppress(_errors()):
                self._act()

    @property
    def _late(self) -> float:
        """Seconds after which a loop that stands still is busy."""
        return min(self._ttl / 4, self._busy_max)

    def _is_stopped(self) -> bool:
        state = state_of(self._parent)
        return not state or state in STOPPED or not self.lives

    def _what(self, running: Running | None) -> str:
        if running is None or running.partition < 0:
            return "something that is not a callback"
        return f"the callback of {running.url}"

    def _act(self) -> None:
        if self._memory.turns != self._turns or self._is_stopped():
            return  # since `look` looked: what it says may have had to wait
        if self._busy >= self._busy_max:
            self._give_up()
        else:
            self._beat()
            self._due = time.monotonic() + self._ttl / 3

    def _beat(self) -> None:
        """Send a heartbeat for the node, with what it is doing."""
        from frontier.store.client import Call

        try:
            said = json.loads(self._memory.said or b"")
            sent, names, args = (said[name] for name in ("sent", "names", "args"))
            report = json.loads(args[4] or "{}")
        except (ValueError, KeyError, TypeError):  # the node has not written all of it
            return
        running = self._memory.running
        url = running.url if running is not None else ""
        report |= {"busy_seconds": round(self._busy, 1), "busy_url": url}
        args[3], args[4] = 1, json.dumps(report)
        calls = [Call.to("node_beat", names, args)]
        began = time.monotonic()
        deadline = max(sent, self._memory.stood_in) + float(self._settings["life"])
        replies = self._at_store(calls) if began < deadline else []
        if not replies or time.monotonic() >= deadline:
            self._over = True  # others may have its partitions
        elif isinstance(replies[0], list):  # else a key of the crawl is damaged
            epoch, *rest = replies[0]
            # The crawl is lost, or the node's place in it.
            self._over = epoch < 0 or rest[1] == b"remove"
            if not self._over:
                self._memory.stand_in(began)

    def _give_up(self) -> None:
        """Make the running request a dead letter, and let the node lose its leases."""
        from frontier.model import Lease
        from frontier.queue.reserve import Reservation, bury_call

        running = self._memory.running
        told = "its leases are let go"
        if running is not None and running.partition >= 0:
            self._note(running)
            keys = self._keys.partition(running.partition)
            one = Reservation(
                Lease(running.partition, running.token), running.id, "", b""
            )
            reason = f"kept node {self._node_id} busy for {self._busy:.0f} s"
            (buried,) = self._at_store(
                [bury_call(keys, one, f"{reason} in its callback")]
            )
            if buried and buried[1]:
                told = "it goes to the dead letter, and the leases are let go"
        self._say(
            f"{self._what(running)} has kept node {self._node_id} busy for "
            f"{self._busy:.0f} s (FRONTIER_BUSY_MAX): {told}; if it hangs for good, "
            f"kill -9 {self._parent} ends it"
        )
        self._over = True

    def part(self) -> None:
        """Note what was running if the node ended without closing."""
        limit = time.monotonic() + PARTING
        while self.lives:
            if time.monotonic() > limit:
                return  # it has only closed the pipe
            time.sleep(self.interval / 20)
        running = self._memory.running
        if self._over or running is None or running.partition < 0:
            return
        told = f"node {self._node_id} has ended in {self._what(running)}"
        limit = time.monotonic() + self._ttl  # after that, others have the leases
        why = "the store did not answer"
        while time.monotonic() < limit:
            try:
                why = self._note(running)
                break
            except _errors():
                time.sleep(RETRY)
        if why:
            told = f"{told}; {why}: all that it had started counts as delivered"
        self._say(told)

    def _note(self, running: Running) -> str:
        """Note that *running* ran, so that no request beside it counts as delivered.

        Return why that cannot be noted; empty if it was.
        """
        from frontier.queue.reserve import Ran, ended_call

        ran = Ran(running.partition, running.token, running.id)
        call = ended_call(self._keys, self._settings["name"], ran)
        (reply,) = self._at_store([call])
        return str(reply) if isinstance(reply, Exception) else ""  # a damaged key

    @property
    def _keys(self) -> CrawlKeys:
        from frontier.store.keys import CrawlKeys

        return CrawlKeys(*self._settings["keys"])

    def _at_store(self, calls: list[Call]) -> list[Any]:
        if self._store is None:
            self._store = connect(self._settings)
        try:
            return self._store.run(calls, tolerant=True)
        except _errors():
            self._store.leave()
            raise


def connect(settings: dict[str, Any]) -> BlockingStore:
    """A client for the store that *settings* name, which tries each call only once."""
    from frontier.store.address import Address
    from frontier.store.client import BlockingStore

    given = dict(settings["address"])
    given["servers"] = tuple((host, port) for host, port in given["servers"])
    return BlockingStore.at(Address(**given), settings["timeout"], repeats=False)


def _errors() -> type[Exception]:
    """The error that the store may raise and that is tolerated."""
    from frontier.errors import StoreError

    return StoreError


def main() -> NoReturn:
    """Watch the node that has started this process, until one of them ends."""
    for number in (signal.SIGINT, signal.SIGTERM):  # as a service manager may send
        signal.signal(number, signal.SIG_IGN)
    given = sys.stdin.buffer.readline()
    if not given.endswith(b"\n"):  # the node has ended before it wrote the settings
        sys.exit(0)
    settings = json.loads(given)
    watch = Watch(Memory(int(settings["file"])), settings)
    if float(settings["ttl"]) < SHORT:
        connect(settings)
    pipe = sys.stdin.fileno()
    while watch.lives:
        ready, _, _ = select.select([pipe], [], [], watch.interval)
        if ready:  # closed: the node has died, as a node that closes kills us first
            break
        watch.look()
    watch.part()
    sys.exit(0)
