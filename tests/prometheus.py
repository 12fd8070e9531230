"""Prometheus' own programs, of Debian's package: a laptop may lack them, CI may not."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

DEADLINE = 240.0
TRIES = 5
"""Ports that are tried: another process may take one that was free."""


def program(name):
    """The path of a program; without it a laptop skips and CI fails."""
    found = shutil.which(name)
    if found:
        return found
    if os.environ.get("TEST_SERVERS") == "all":
        pytest.fail(f"there is no {name} here, but TEST_SERVERS is 'all'")
    pytest.skip(f"there is no {name} here")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


class Prometheus:
    """A real one, with the configuration in a directory, and what it answers."""

    def __init__(self, directory):
        self._directory = directory
        self._process = None

    def start(self):
        for _ in range(TRIES):
            self.url = f"http://127.0.0.1:{free_port()}"
            self._run()
            if self._is_ready():
                return
        log = (self._directory / "prometheus.log").read_text()
        raise AssertionError(f"prometheus does not start: {log[-2000:]}")

    def _run(self):
        words = [
            program("prometheus"),
            f"--config.file={self._directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
        ]
        with (self._directory / "prometheus.log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log)

    def _is_ready(self):
        limit = time.monotonic() + DEADLINE
        while self._process.poll() is None:
            assert time.monotonic() < limit, "prometheus is not ready"
            with contextlib.suppress(OSError), self._open("/-/ready"):
                return True
            time.sleep(0.02)
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
