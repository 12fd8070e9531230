"""Prometheus' own programs, of Debian's package: a laptop may lack them, CI may not."""

import contextlib
import json
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from tests.foreign import lacks
from tests.topologies import DEADLINE, free_ports, until


def program(name):
    """The path of a program; without it a laptop skips and CI fails."""
    return shutil.which(name) or lacks(name)


class Prometheus:
    """A real one, with the configuration in a directory, and what it answers."""

    def __init__(self, directory):
        self._directory = directory
        self._process = None

    def start(self):
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        words = [
            program("prometheus"),
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        with (self._directory / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        until(self._is_ready, "prometheus is ready")

    def _is_ready(self):
        log = (self._directory / "prometheus.log").read_text()
        assert self._process.poll() is None, log[-2000:]
        with contextlib.suppress(OSError), self._open("/-/ready"):
            return True
        return False

    def _open(self, path, **query):
        given = f"?{urllib.parse.urlencode(query)}" if query else ""
        return urllib.request.urlopen(f"{self.url}{path}{given}", timeout=DEADLINE)

    def ask(self, path, **query):
        """The data of an answer of its API."""
        try:
            with self._open(f"/api/v1/{path}", **query) as answer:
                told = json.load(answer)
        except urllib.error.HTTPError as error:
            told = json.load(error)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression):
        """The series of an expression now: labels, and the value."""
        found = self.ask("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def stop(self):
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(DEADLINE)
