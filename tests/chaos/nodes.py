"""Nodes: real ``scrapy crawl`` processes, one log file each.

They are forked from one that has imported what they need, as five of them are started
in ten seconds on two CPUs (`tests.integration.warm`).
"""

import json
import os
import signal
import subprocess
import sys

from tests.chaos.stamp import VARIABLE
from tests.integration import warm

ROOT = warm.ROOT
REFUSED = "this crawl is finished"
"""What a node says that comes after the end."""
prepare = warm.parent
"""Begin to import what nodes need, which takes as long as servers to start."""


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
        with self.log.open("ab") as log:
            self._process = warm.Popen(
                [sys.executable, "-m", "scrapy", *words],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: name},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def runs(self):
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def pid(self):
        """Of its process."""
        return self._process.pid

    @property
    def crashed(self):
        """Whether it ended with an error that nothing explains."""
        return (
            not self.touched
            and self._process.poll() not in {None, 0}
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
        self._process.wait()

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
        self._process.send_signal(number)
