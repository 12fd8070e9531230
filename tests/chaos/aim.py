"""Where an append-only file is cut: just before one push of one node.

A file that is cut at a random moment loses what everybody knows to be under way. What
is lost in silence, if anything, is a push that was confirmed to one node, followed by
those of others, so that is what is waited for.

1.  A plan is drawn from a seed. Of four successive seeds two kill the pusher in the
    same moment; of eight, half of each have journals; every second has a cluster.
2.  The push that is waited for queues a page to which only one other leads.
3.  In a plan that is `safe` no page may be lost, if the node that was stopped goes on
    within `frontier.node.outbox.KEPT` seconds. In the others it may: the node that
    knew of the push is dead, and its page is acked at another server. A journal helps
    `frontier crawl rebuild` alone (docs/cluster.md, "What can be lost").
"""

import re
import threading
from dataclasses import dataclass
from random import Random

from frontier.errors import CodecError
from frontier.queue.item import decode
from frontier.store.scripts import SCRIPTS
from tests.chaos.plan import StoreKind

PUSH, ACK = SCRIPTS["queue_push"].sha.encode(), SCRIPTS["queue_ack"].sha.encode()
RARE = b"calendar"
"""In the URL of a page to which only one other leads."""
NEW = re.compile(rb"\*8\r\n:1\r\n(?::\d+\r\n){5}\$\d+\r\n[a-z]*n")
"""In the reply to a push that has queued something."""
_READY = re.compile(rb"\{[^{}]+:\d+\}:ready:(.*)", re.DOTALL)
_ADDED = re.compile(rb"\{[^{}]+:(\d+)\}:set:")


@dataclass(frozen=True, slots=True)
class AimedPlan:
    """What happens in one trial."""

    seed: int
    at: float
    """When so much of the site was served, as a share."""
    store: StoreKind
    acked: bool
    """Whether the cut comes after an ack of the node at another server, too."""
    dies: bool
    """Whether the node is killed in the same moment; else it is stopped for a while."""
    hides: bool
    """Whether others push as many new URLs before it goes on."""
    journals: bool

    @property
    def safe(self):
        """Whether nothing may be lost."""
        return not (self.dies and self.store is StoreKind.CLUSTER)

    def lines(self):
        """The plan, for people."""
        first = f"aimed seed {self.seed}: {self.store}"
        first += ", with journals" if self.journals else ""
        cut = f"{self.at:4.0%} cut before a push"
        cut += ", after an ack" if self.acked else ""
        cut += ", the node is killed" if self.dies else ", the node is stopped"
        cut += ", others push as much" if self.hides else ""
        return [first, cut]


def draw_aimed(seed):
    """The plan of *seed*."""
    random = Random(f"aimed {seed}")
    cluster = seed % 2 == 0
    dies = bool(seed // 2 % 2)
    return AimedPlan(
        seed,
        at=round(random.uniform(0.05, 0.4), 3),
        store=StoreKind.CLUSTER if cluster else StoreKind.SINGLE,
        acked=cluster and (dies or random.random() < 0.5),
        dies=dies,
        hides=random.random() < 0.7,
        journals=bool(seed // 4 % 2),
    )


class Aim:
    """Waits until a node was told that a rare page is queued.

    With *acked* until it was also told of an ack at another server. Then *strike* is
    called with the node's name and the wire of the push, in the wire's thread.
    """

    def __init__(
        self,
        size,
        strike,
        *,
        acked,
    ):
        self._size, self._strike = size, strike
        self._acked = acked
        self._lock = threading.Lock()
        self._pushing = None
        self._acking = None
        self._pushed = False
        self.name = ""
        self.wire = None
        self.cut = 0
        """Bytes of the file before the push."""
        self.hit = threading.Event()

    def sent(self, wire, line, name, data):
        """See `Ear`."""
        with self._lock:
            if self.hit.is_set() or not name:
                return
            if self._pushed:
                if name == self.name and wire is not self.wire and ACK in data:
                    self._acking = line
            elif self._pushing is None and PUSH in data and RARE in data:
                self._pushing, self.wire, self.name = line, wire, name
                self.cut = self._size(wire)

    def answered(self, wire, line, data):
        """See `Ear`."""
        with self._lock:
            if self.hit.is_set() or line not in (self._pushing, self._acking):
                return
            if not self._pushed:
                if not NEW.search(data):
                    self._pushing = None
                    return
                self._pushed = True
                if self._acked:
                    return
            elif line is not self._acking:
                return
            self._strike(self.name, self.wire or wire)
            self.hit.set()  # not before: who waits for it starts the server again


@dataclass(frozen=True, slots=True)
class Tail:
    """What was cut off."""

    urls: frozenset[str]
    """URLs that were queued."""
    new: dict[int, int]
    """How many URLs became seen, by partition."""


def tail_of(data):
    """What *data*, the end of an append-only file, did to queues and seen-sets."""
    urls, new = set(), dict[int, int]()
    for name, key, *values in commands(data):
        if name.upper() == b"RPUSH" and (found := _READY.match(key)):
            queue = found[1].decode()
            for item in values:
                try:
                    urls.add(str(decode(item, queue)["url"]))
                except CodecError:
                    continue  # a mark of blocks
        elif name.upper() == b"SADD" and (found := _ADDED.match(key)):
            partition = int(found[1])
            new[partition] = new.get(partition, 0) + len(values)
    return Tail(frozenset(urls), new)


def commands(data):
    """The commands with a key in *data*, as a server appends them."""
    at = 0
    while (at := data.find(b"*", at)) >= 0:
        head = re.compile(rb"\*(\d+)\r\n").match(data, at)
        if head is None:
            at += 1
            continue
        at, words = head.end(), []
        for _ in range(int(head[1])):
            size = re.compile(rb"\$(\d+)\r\n").match(data, at)
            if size is None:
                break
            at = size.end() + int(size[1]) + 2
            words.append(data[size.end() : at - 2])
        if len(words) == int(head[1]) > 1:
            yield words
