"""Nodes: real ``scrapy crawl`` processes, one log file each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.chaos.stamp import VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).parents[2]
REFUSED = "this crawl is finished"
"""What a node says that comes after the end."""


class Process:
    """One node, from its start to its end."""

    def __init__(
        self,
        name: str,
        node_id: str,
        command: Sequence[str],
        settings: Mapping[str, object],
        directory: Path,
    ) -> None:
        self.name = name
        """Names this process in the site's log; no two have the same."""
        self.node_id = node_id
        self.touched = False
        """Whether it was killed or told to leave."""
        self.frozen = False
        self.log = directory / f"{name}.log"
        stamp = json.dumps({"benchmarks.chaos.stamp.StampMiddleware": 10_000})
        chosen = {"DOWNLOADER_MIDDLEWARES": stamp, **settings}
        options = [f"-s{key}={value}" for key, value in chosen.items()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", *command, *options],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: name},
            )

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def crashed(self) -> bool:
        """Whether it ended with an error that nothing explains."""
        return (
            not self.touched
            and self._process.poll() not in {None, 0}
            and REFUSED not in self.text
        )

    @property
    def text(self) -> str:
        """What it has logged."""
        return self.log.read_text("utf-8", "replace")

    def kill(self) -> None:
        """``kill -9``, and wait for its end."""
        self.touched = True
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        """Stop it where it is."""
        self.frozen = True
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self.frozen = False
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Tell it to end."""
        self.touched = True
        self._process.send_signal(signal.SIGTERM)
