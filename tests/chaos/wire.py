"""A network between nodes and a server that a trial can make worse.

A TCP proxy in a thread of its own. What is changed while it runs holds from
the next byte on.

Whose a connection is says the name that the client gives to it (``CLIENT
SETNAME``); one that asks for replication is the `REPLICA`'s. What other servers
and a Sentinel send is forwarded, and never delayed or cut.
"""

import asyncio
import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

CHUNK = 1 << 16
REPLICA = "replica"
"""The name of connections by which one server follows another."""
_NAME = re.compile(rb"SETNAME\r\n\$\d+\r\n(?!sentinel-)([^\r]+)\r\n")
_PSYNC = re.compile(rb"PSYNC\r\n")
_NAMELESS = 8
"""Chunks after which a client that has told no name will not tell one."""


@dataclass(eq=False, slots=True)
class _Line:
    """One connection through a wire."""

    ends: object
    name: str = ""
    chunks: int = field(default=0)
    doomed: bool = False
    """Whether what the server answers next is lost."""

    def listen(self, data):
        """Learn the name of who sends *data*."""
        if self.name or self.chunks >= _NAMELESS:
            return
        self.chunks += 1
        if found := _NAME.search(data):
            self.name = found[1].decode()
        elif _PSYNC.search(data):
            self.name = REPLICA


class Wire:
    """Forwards connections to a port on loopback to *target*.

    That is the path of a unix socket, or another port on loopback. With *socket* it
    listens on that path.
    """

    def __init__(self, target, socket=None):
        self._target, self._socket = target, socket
        self.delay = 0.0
        """Seconds by which every byte of a node is late, in each direction."""
        self.delays = {}
        """The same for one client, by its name."""
        self.hear = lambda data: None
        """Called with what clients send, in the wire's thread, before it goes on."""
        self.loses = None
        """Bytes; what is answered to the next that has these in it is lost."""
        self.lost = 0
        self.port = 0
        self._lines = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="wire", daemon=True
        )

    @property
    def url(self):
        """Where nodes connect to."""
        if self._socket:
            return f"unix://{self._socket}"
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        """Listen; connections are accepted when this returns."""
        self._thread.start()
        self._ready.wait()

    def cut(self, name=""):
        """Close the connections of *name* at once, and lose what is on its way.

        Without a name, those of all nodes.
        """
        self._loop.call_soon_threadsafe(self._cut, name)

    def stop(self):
        """Close all connections and listen no more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def _cut(self, name):
        for line in list(self._lines):
            if line.name == name if name else line.name not in {"", REPLICA}:
                for end in line.ends:
                    end.transport.abort()

    def _delay_of(self, line):
        if not line.name:
            return 0.0
        common = 0.0 if line.name == REPLICA else self.delay
        return max(common, self.delays.get(line.name, 0.0))

    async def _serve(self):
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        if self._socket:
            server = await asyncio.start_unix_server(self._accept, self._socket)
        else:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._end.wait()
        server.close()
        for line in list(self._lines):
            for end in line.ends:
                end.transport.abort()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect(self):
        if isinstance(self._target, Path):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection("127.0.0.1", self._target)

    async def _accept(self, reader, writer):
        try:
            far_reader, far_writer = await self._connect()
        except OSError:  # the store is down
            writer.transport.abort()
            return
        line = _Line((writer, far_writer))
        self._lines.add(line)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pipe(line, reader, far_writer, listen=True))
                group.create_task(self._pipe(line, far_reader, writer))
        except* OSError:
            pass
        finally:
            self._lines.discard(line)
            for end in line.ends:
                end.transport.abort()

    async def _pipe(
        self,
        line,
        source,
        sink,
        *,
        listen=False,
    ):
        """Forward until the end of *source*; then the other direction ends too."""
        late = asyncio.Queue()

        async def send():
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
                if listen:
                    line.listen(data)
                    self.hear(data)
                    if self.loses is not None and self.loses in data:
                        self.loses, line.doomed = None, True
                elif line.doomed and data:
                    self.lost += 1
                    break
                late.put_nowait((self._loop.time() + self._delay_of(line), data))
            if not line.doomed:
                await sending
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending
        raise ConnectionResetError
