"""Every revisit of a crawl whose nodes are killed leads to stored bytes.

``python -m tests.chaos.resolve [--urls N] [--nodes N] [--kills N]`` crawls the
built-in site, kills nodes with SIGKILL at even steps of the crawl and starts others
in their place, then reads the files and computes each digest again. It prints one
JSON object and exits with 1 if a revisit leads nowhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fastwarc.warc import ArchiveIterator, WarcRecordType

from frontier.store.embedded import EmbeddedStore
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from frontier.warc.repair import repair

ROOT = Path(__file__).parents[2]
LIMIT = 3600.0
"""Seconds after which a crawl is said to hang."""


@dataclass(slots=True)
class Resolved:
    """What the revisits of an archive lead to."""

    responses: int = 0
    revisits: int = 0
    dangling: list[str] = field(default_factory=list)
    """Revisits whose original is in no file, or has another payload."""
    wrong: list[str] = field(default_factory=list)
    """Responses whose bytes do not have the digest that their record says."""
    repaired: int = 0
    """Files that killed nodes had left open."""


def resolve(directory: Path) -> Resolved:
    """Read all of *directory*, after the repair that the next start would do."""
    found = Resolved(repaired=len(repair(directory, None)))
    stored: dict[tuple[str, str], str] = {}
    revisits = []
    kinds = WarcRecordType.response | WarcRecordType.revisit
    for path in sorted(directory.glob("*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, record_types=kinds):
                h = {name.lower(): value for name, value in record.headers.items()}
                url, date = h["warc-target-uri"], h["warc-date"]
                digest = h["warc-payload-digest"]
                if record.record_type == WarcRecordType.revisit:
                    at = h.get("warc-refers-to-target-uri", "")
                    to = (at, h.get("warc-refers-to-date", ""))
                    revisits.append((f"{path.name}: {url} {date}", to, digest))
                    continue
                made = hashlib.sha256(record.reader.read()).hexdigest()
                if digest != f"sha256:{made}":
                    found.wrong.append(f"{path.name}: {url} {date}")
                stored[url, date] = f"sha256:{made}"
    found.responses, found.revisits = len(stored), len(revisits)
    found.dangling = [name for name, to, digest in revisits if stored.get(to) != digest]
    return found


class Crawl:
    """Nodes of one crawl, as processes."""

    def __init__(self, directory: Path, server: SiteServer, log: Path) -> None:
        self._directory, self._server, self._log = directory, server, log
        self._running: list[subprocess.Popen[bytes]] = []
        self._started = 0

    def start(self) -> None:
        """Start one more node."""
        self._started += 1
        name = f"node-{self._started}"
        chosen = {
            "FRONTIER_STORE_DIR": self._directory / "f",
            "FRONTIER_WARC_DIR": self._directory / "w",
            "FRONTIER_NODE_ID": name,
            "FRONTIER_LEASE_TTL": "5",
            "DOWNLOAD_DELAY": "0",
            "CONCURRENT_REQUESTS_PER_DOMAIN": "8",
        }
        options = [f"-s{key}={value}" for key, value in chosen.items()]
        seeds = ",".join(self._server.seeds)
        with (self._directory / f"{name}.log").open("wb") as log:
            self._running.append(
                subprocess.Popen(
                    [
                        *(sys.executable, "-m", "scrapy", "crawl", "site"),
                        *("-a", f"seeds={seeds}"),
                        *options,
                    ],
                    cwd=ROOT,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                    stdout=log,
                    stderr=log,
                )
            )

    def served(self) -> int:
        """Requests that the site has answered."""
        return self._log.read_bytes().count(b"\n") if self._log.exists() else 0

    def wait_for(self, count: int) -> None:
        """Return when *count* requests were answered."""
        limit = time.monotonic() + LIMIT
        while self.served() < count:
            if all(each.poll() is not None for each in self._running):
                raise RuntimeError(f"all nodes have ended; see {self._directory}")
            if time.monotonic() > limit:
                raise RuntimeError(f"{count} requests did not come in {LIMIT:g} s")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the oldest node, with SIGKILL."""
        victim = self._running.pop(0)
        victim.kill()
        victim.wait()

    def end(self) -> list[int]:
        """Wait for the nodes; return their exit codes."""
        return [each.wait(LIMIT) for each in self._running]

    def stop(self) -> None:
        """Kill what is left."""
        for each in self._running:
            each.kill()
            each.wait()


def run(directory: Path, urls: int, nodes: int, kills: int) -> dict[str, object]:
    """Crawl a site of *urls* into *directory*; return what came of it."""
    log = directory / "requests.jsonl"
    begun = time.monotonic()
    with SiteServer(Site(urls=urls, hosts=8, slow_seconds=0.2), log=log) as server:
        crawl = Crawl(directory, server, log)
        try:
            for _ in range(nodes):
                crawl.start()
            for kill in range(1, kills + 1):
                crawl.wait_for(urls * kill // (kills + 1))
                crawl.kill()
                crawl.start()
            codes = crawl.end()
        finally:
            crawl.stop()
            if (directory / "f").exists():
                EmbeddedStore.join(directory / "f").leave()
        requests = RequestLog.read(log)
        missing = requests.missing(expected_urls(server.site))
    found = resolve(directory / "w")
    return {
        "urls": urls,
        "nodes": nodes,
        "kills": kills,
        "seconds": round(time.monotonic() - begun, 1),
        "exit_codes": dict(Counter(map(str, codes))),
        "missing_urls": len(missing),
        "fetched_again": len(requests.repeated()),
        **asdict(found),
    }


def main() -> int:
    """Run it as the options say."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.resolve")
    parser.add_argument("--urls", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--kills", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="resolve-") as name:
        outcome = run(Path(name), given.urls, given.nodes, given.kills)
    print(json.dumps(outcome))
    bad = outcome["dangling"] or outcome["wrong"] or outcome["missing_urls"]
    return 1 if bad or not outcome["revisits"] else 0


if __name__ == "__main__":
    sys.exit(main())
