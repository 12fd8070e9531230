"""Python processes that need not import everything again.

`Popen` and `run` are those of `subprocess`, for what starts with
``sys.executable`` and goes on with ``-m``, ``-c`` or the name of a script. The
process is forked from one that has Scrapy and `frontier` in memory, which
spares it two seconds of a core; so are the nodes of a ``frontier crawl run``
that was. All else is as it would be: directory, environment, files and
``sys.path`` are those asked for, the project's own modules are imported after
the fork, and a signal or an exit code is what it is. But it ends without taking
all modules apart, which is a fifth of what a short crawl costs. Users start
processes otherwise, and so does the test of an interrupted crawl in `tests/cli`.
"""

import atexit
import contextlib
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ["commands", "core", "downloadermiddlewares", "extensions", "spidermiddlewares"]
CHOOSES = ("__main__", "handlers.ftp")
"""Ends of names: the latter imports a reactor, with Scrapy 2.13."""
LEAKS = ".postcrawl."
"""Imports DuckDB, which complains in a process that was forked after that."""
STATUS = struct.Struct("i")
SIZE = struct.Struct("I")


class Parent:
    """The way to the process that others are forked from, which listens at *address*.

    Nodes that a forked command starts have it from there as well.
    """

    def __init__(self, address):
        self._address = address

    @classmethod
    def start(cls):
        """Start it; it ends with this process, even where that is killed."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"\0frontier-warm-{os.getpid()}")
            listener.listen()
            given = [listener.fileno(), os.getpid()]
            process = subprocess.Popen(
                [sys.executable, "-P", __file__, *map(str, given)],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                pass_fds=given[:1],
            )
            atexit.register(process.wait)
            atexit.register(process.kill)  # before
            return cls(listener.getsockname())

    def fork(self, request, files):
        """Start a process; return its id, and a pipe with its status at the end."""
        status, theirs = os.pipe()
        data = json.dumps(request).encode()
        try:
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(self._address)
                socket.send_fds(asking, [SIZE.pack(len(data))], [*files, theirs])
                asking.sendall(data)
                answer = asking.recv(STATUS.size, socket.MSG_WAITALL)
        finally:
            os.close(theirs)
        return STATUS.unpack(answer)[0], status


parents = []


def parent():
    if not parents:
        parents.append(Parent.start())
    return parents[0]


class Popen(subprocess.Popen):
    """A process that somebody else waits for and tells us about."""

    def _execute_child(self, *args, **kwargs):
        bound = inspect.signature(super()._execute_child).bind(*args, **kwargs)
        given = bound.arguments
        python, *words = [os.fsdecode(word) for word in given["args"]]
        assert python == sys.executable, python
        env = os.environ if given["env"] is None else given["env"]
        ends = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        request = {
            "words": words,
            "cwd": os.fspath(given["cwd"] or Path.cwd()),
            "is_leader": given["start_new_session"],
            "env": {os.fsdecode(k): os.fsdecode(v) for k, v in env.items()},
        }
        files = [own if end == -1 else end for own, end in enumerate(ends)]
        self.pid, self._status = parent().fork(request, files)
        self._child_created = True
        ends = "p2cread p2cwrite c2pread c2pwrite errread errwrite"
        self._close_pipe_fds(*(given[name] for name in ends.split()))

    def _try_wait(self, wait_flags):
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        data = os.read(self._status, STATUS.size)
        assert data, "the process that others are forked from has ended"
        os.close(self._status)
        return self.pid, STATUS.unpack(data)[0]

    def _internal_poll(self, *_, **__):
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            with contextlib.closing(Release(self._waitpid_lock)):
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid:
                        self._handle_exitstatus(status)
        return self.returncode


class Release:
    def __init__(self, lock):
        self.close = lock.release


def run(words, *, check, capture_output=False, timeout=300, **options):
    """Run to the end, as `subprocess.run`."""
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(words, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def imports():
    """Import what nodes and commands do, but what chooses a reactor."""
    warnings.simplefilter("ignore")  # of modules that nobody asked for

    import frontier

    places = [(frontier.__path__, "frontier.")]
    places += [
        (importlib.import_module(f"scrapy.{part}").__path__, f"scrapy.{part}.")
        for part in PARTS
    ]
    for path, prefix in places:
        for found in pkgutil.walk_packages(path, prefix):
            if not found.name.endswith(CHOOSES) and LEAKS not in found.name:
                with contextlib.suppress(ImportError):  # of what is not installed
                    importlib.import_module(found.name)
    frontier.urls.scope.domain_of("a.example")  # reads the list of public suffixes
    assert "twisted.internet.reactor" not in sys.modules


def serve(listener, user):
    """Fork whenever told to; return in the child, with what it is to be.

    Once the process *user* has ended, so do this one and all that it has forked.
    """
    address, alive = listener.getsockname(), os.pidfd_open(user)
    running = {}
    wake, woken = socket.socketpair()
    for end in (wake, woken):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    while True:
        ready, _, _ = select.select([listener, alive, wake], [], [])
        if alive in ready:
            for pid in running:
                os.kill(pid, signal.SIGKILL)
            os._exit(0)
        if wake in ready:
            wake.recv(4096)
            while running:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                pipe = running.pop(pid)
                with contextlib.suppress(BrokenPipeError):  # nobody asks any more
                    os.write(pipe, STATUS.pack(status))
                os.close(pipe)
        if listener in ready:
            asking, _ = listener.accept()
            with asking:
                data, fds, _, _ = socket.recv_fds(asking, SIZE.size, 4)
                *files, pipe = fds
                size = SIZE.unpack(data)[0]
                request = json.loads(asking.recv(size, socket.MSG_WAITALL))
                pid = os.fork()
                if not pid:
                    return request, files, address
                running[pid] = pipe
                for file in files:
                    os.close(file)
                asking.sendall(STATUS.pack(pid))


def become(request, files, address):
    """Be the process that was asked for, up to its first line."""
    from frontier.cli import node_processes

    if request["is_leader"]:
        os.setsid()
    parents.append(Parent(address))
    names = {**vars(subprocess), "Popen": Popen}
    node_processes.subprocess = types.SimpleNamespace(**names)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 65536)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    words = request["words"]
    paths = request["env"].get("PYTHONPATH", "").split(os.pathsep)
    is_file = words[0] not in {"-c", "-m"}
    first = str(Path(words[0]).parent) if is_file else request["cwd"]
    base = [path for path in sys.path if path != str(ROOT)]
    sys.path[:] = [first, *filter(None, paths), *base]
    importlib.invalidate_caches()


def do(words):
    """What ``python`` with *words* does, which may end this process."""
    if words[0] == "-m":
        sys.argv[:] = words[1:]
        if not hasattr(sys.modules.get(words[1]), "__path__"):
            sys.modules.pop(words[1], None)  # as in a new process
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        sys.modules["__main__"] = types.ModuleType("__main__")
        exec(words[1], vars(sys.modules["__main__"]))
    else:
        sys.argv[:] = words
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    with warnings.catch_warnings():
        imports()
    gc.freeze()
    given, user = map(int, sys.argv[1:])
    request, files, address = serve(socket.socket(fileno=given), user)
    become(request, files, address)
    code = 0
    try:
        do(request["words"])
    except SystemExit as end:
        if isinstance(end.code, str):
            raise
        code = end.code or 0
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
