"""A network between nodes and store that a trial can make worse.

A TCP proxy in a thread of its own. What is changed while it runs holds from
the next byte on.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CHUNK = 1 << 16


class Wire:
    """Forwards connections to a port on loopback to the unix socket *target*."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self.delay = 0.0
        """Seconds by which every byte is late, in each direction."""
        self.port = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="wire", daemon=True
        )

    @property
    def url(self) -> str:
        """Where nodes connect to."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Listen; connections are accepted when this returns."""
        self._thread.start()
        self._ready.wait()

    def cut(self) -> None:
        """Close all connections at once, and lose what is on its way."""
        self._loop.call_soon_threadsafe(self._cut)

    def stop(self) -> None:
        """Close all connections and listen no more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            far_reader, far_writer = await asyncio.open_unix_connection(self._target)
        except OSError:  # the store is down
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pipe(reader, far_writer))
                group.create_task(self._pipe(far_reader, writer))
        except* OSError:
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _pipe(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        """Forward until the end of *source*; then the other direction ends too."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def send() -> None:
            while True:
                due, data = await late.get()
                if (wait := due - self._loop.time()) > 0:
                    await asyncio.sleep(wait)
                if not data:
                    return
                sink.write(data)
                await sink.drain()

        sending = self._loop.create_task(send())
        try:
            data = b"anything"
            while data:
                data = await source.read(CHUNK)
                late.put_nowait((self._loop.time() + self.delay, data))
            await sending
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending
        raise ConnectionResetError
