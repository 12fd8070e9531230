"""A network between node and server: a proxy that delays every byte.

It runs as a process of its own, ``python -m benchmarks.proxy LISTEN TARGET
SECONDS``, until its standard input ends, so that it never outlives the process that
started it. Threads that sleep are used because asyncio's timers count in whole
milliseconds.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

from benchmarks.server import PATIENCE, Server, stop

CHUNK = 1 << 18


@contextmanager
def delayed(server: Server, seconds: float) -> Iterator[str]:
    """A URL of *server* at which a round trip takes *seconds* longer."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        path = Path(directory) / "proxy.sock"
        words = ["-m", "benchmarks.proxy", str(path), str(server.socket), str(seconds)]
        process = subprocess.Popen([sys.executable, *words], stdin=subprocess.PIPE)
        try:
            deadline = time.monotonic() + PATIENCE
            while not path.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the proxy does not start")
                time.sleep(0.01)
            yield f"unix://{path}"
        finally:
            stop(process)


def serve(listen: str, target: str, seconds: float) -> None:
    """Accept connections and forward each to *target*."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(listen + ".new")
    listener.listen()
    Path(listen + ".new").rename(listen)  # whoever sees it can connect
    while True:
        near, _ = listener.accept()
        far = socket.socket(socket.AF_UNIX)
        far.connect(target)
        for source, sink in ((near, far), (far, near)):
            queue: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
            _start(_receive, source, queue, seconds / 2)
            _start(_send, sink, queue)


def _receive(
    source: socket.socket, queue: SimpleQueue[tuple[float, bytes]], delay: float
) -> None:
    data = b"anything"
    while data:
        try:
            data = source.recv(CHUNK)
        except OSError:
            data = b""
        queue.put((time.monotonic() + delay, data))


def _send(sink: socket.socket, queue: SimpleQueue[tuple[float, bytes]]) -> None:
    while True:
        due, data = queue.get()
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
        except OSError:
            return


def _start(target: object, *args: object) -> None:
    threading.Thread(target=target, args=args, daemon=True).start()  # type: ignore[arg-type]


def _end_with_parent() -> None:
    with suppress(OSError):
        sys.stdin.buffer.read()


if __name__ == "__main__":
    _start(serve, sys.argv[1], sys.argv[2], float(sys.argv[3]))
    _end_with_parent()
