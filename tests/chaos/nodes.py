"""Nodes: real ``scrapy crawl`` processes, one log file each.

They are forked from a server that has imported what they need, as five of them
are started in ten seconds on two CPUs. Apart from that each does what
``python -m scrapy`` does.
"""

import json
import os
import signal
import sys
from multiprocessing import forkserver, get_context
from pathlib import Path

from tests.chaos.stamp import VARIABLE

ROOT = Path(__file__).parents[2]
REFUSED = "this crawl is finished"
"""What a node says that comes after the end."""

_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.chaos.preload"])


def prepare():
    """Begin to import what nodes need, which takes as long as servers to start."""
    forkserver.ensure_running()


def _crawl(name, words, log):
    """Be the node *name*."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.chdir(ROOT)
    os.environ[VARIABLE] = name
    sys.argv = ["scrapy", *words]
    from scrapy.cmdline import execute

    execute()


class Process:
    """One node, from its start to its end."""

    def __init__(
        self,
        name,
        node_id,
        command,
        settings,
        directory,
    ):
        self.name = name
        """Names this process in the site's log; no two have the same."""
        self.node_id = node_id
        self.touched = False
        """Whether it was killed or told to leave."""
        self.frozen = False
        self.log = directory / f"{name}.log"
        stamp = json.dumps({"tests.chaos.stamp.StampMiddleware": 10_000})
        chosen = {"DOWNLOADER_MIDDLEWARES": stamp, **settings}
        words = [*command, *(f"-s{key}={value}" for key, value in chosen.items())]
        self._process = _context.Process(target=_crawl, args=(name, words, self.log))
        self._process.start()

    @property
    def runs(self):
        """Whether it has not ended."""
        return self._process.exitcode is None

    @property
    def pid(self):
        """Of its process."""
        return self._process.pid or 0

    @property
    def crashed(self):
        """Whether it ended with an error that nothing explains."""
        return (
            not self.touched
            and self._process.exitcode not in {None, 0}
            and REFUSED not in self.text
        )

    @property
    def came_too_early(self):
        """Whether it ended because the store did not answer when it started."""
        return "does not answer" in self.text and "is in crawl" not in self.text

    @property
    def text(self):
        """What it has logged."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def kill(self):
        """``kill -9``, and wait for its end."""
        self.touched = True
        self._process.kill()
        self._process.join()

    def freeze(self):
        """Stop it where it is."""
        self.frozen = True
        self._send(signal.SIGSTOP)

    def thaw(self):
        """Let it go on."""
        self.frozen = False
        self._send(signal.SIGCONT)

    def leave(self):
        """Tell it to end."""
        self.touched = True
        self._send(signal.SIGTERM)

    def _send(self, number):
        if self.runs and self._process.pid is not None:
            os.kill(self._process.pid, number)
