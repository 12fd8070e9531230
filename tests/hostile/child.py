"""Runs inputs in processes forked from this one, and watches over them.

Reads lines of JSON, ``{"names": [...], "directory": ..., "url": ...}``, and writes one
for each: a verdict. The inputs of a line share a process, each in a directory of its
own and with what it may use counted for it alone, up to the first that fails. The
verdict is ``ok``, ``wrong`` (another result than the input says), ``crashed`` (an
exception, a signal), ``escaped``, ``hung`` or ``large``.

What an input may not do is seen by an audit hook (PEP 578), which sees what Python
does, in threads and in forks, but not what a C library does by itself.
"""

import contextlib
import faulthandler
import gc
import ipaddress
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import redis

from tests.hostile.corpus import Given, load
from tests.integration import warm

ROOM = 1 << 30
"""Bytes of addresses that an input may have beyond what its parent has."""
FILES = 1 << 29
"""Bytes of the largest file that it may write."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {
    "os.chmod",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.symlink",
    "os.truncate",
}
CHANGED = {
    "os.link": slice(1, 2),
    "os.rename": slice(2),
    "os.symlink": slice(1, 2),
}
"""Which of their arguments are paths that are changed, where it is not the first."""
STARTS = {"os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}
OTHERS = ("/dev/null/", "/dev/tty/", os.environ["TLDEXTRACT_CACHE"])
"""What may be written besides."""


class Watch:
    """An audit hook that writes a line for all that leads out of *directory*."""

    def __init__(self, pipe):
        self._pipe = pipe
        self.is_on = False

    def enter(self, directory):
        self._directory = os.path.realpath(directory / "here")
        self._bait = os.path.realpath(directory / "bait")

    def __call__(self, event, given):
        if not self.is_on:
            return
        if event == "open":
            path, _, flags = given
            if isinstance(path, str | bytes | os.PathLike):
                self._file(path, flags & WRITES, "wrote")
        elif event in CHANGES:
            for path in given[CHANGED.get(event, slice(1))]:
                if isinstance(path, str | bytes | os.PathLike):
                    self._file(path, True, event)
        elif event == "socket.connect":
            self._address(given[1])
        elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
            self._name(given[0])
        elif event in STARTS and given[0] not in {sys.executable, "uname"}:
            self._tell(f"{event}: {given[0]!r}")
        elif event == "pickle.find_class":
            self._tell(f"unpickled a {given!r}")

    def _file(self, path, writes, what):
        real = os.path.realpath(os.fsdecode(path))
        if real == self._bait or real.startswith(self._bait + "/"):
            self._tell(f"opened {real}")
        elif writes and not f"{real}/".startswith((f"{self._directory}/", *OTHERS)):
            self._tell(f"{what}: {real}")

    def _address(self, address):
        if isinstance(address, tuple):
            try:
                ip = ipaddress.ip_address(str(address[0]).partition("%")[0])
            except ValueError:
                self._name(address[0])
                return
            if not (getattr(ip, "ipv4_mapped", None) or ip).is_loopback:
                self._tell(f"connected to {address!r}")

    def _name(self, name):
        if isinstance(name, bytes):
            name = name.decode("latin-1")
        try:
            ipaddress.ip_address(name or "127.0.0.1")
        except ValueError:
            if name != "localhost" and not name.endswith(".localhost"):
                self._tell(f"looked up {name!r}")

    def _tell(self, text):
        os.write(self._pipe, json.dumps(["escaped", text]).encode() + b"\n")


def limit():
    """Limit the process; see `limit_cpu`."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
    for what, soft, hard in (
        (resource.RLIMIT_AS, room, room),
        (resource.RLIMIT_FSIZE, FILES, FILES),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        resource.setrlimit(what, (soft, hard))


def limit_cpu(limits):
    used = int(time.process_time())
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (used + limits.cpu, hard))


def run(ones, directory, url, pipe):
    """Be the process of inputs, to its end, or to that of the first that fails."""
    os.setsid()
    sys.dont_write_bytecode = True
    watch = Watch(pipe)
    sys.addaudithook(watch)
    limit()
    for number, one in enumerate(ones):
        own = directory / f"{directory.name}-{number}"
        own.mkdir()
        verdict, told = run_one(one, own, url, watch)
        os.write(pipe, json.dumps([verdict, told[-4000:], one.name]).encode() + b"\n")
        if verdict != "ok":
            break
    os._exit(0)


def run_one(one, directory, url, watch):
    with contextlib.closing(redis.Redis.from_url(url)) as client:
        client.flushdb()
    given = Given(directory, url, watch)
    temporary = given.directory / "tmp"
    temporary.mkdir()
    os.chdir(given.directory)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    verdict, told = "ok", ""
    limit_cpu(one.limits)
    watch.enter(directory)
    watch.is_on = True
    try:
        one.run(given)
    except AssertionError:
        verdict, told = "wrong", traceback.format_exc()
    except MemoryError:
        verdict, told = "large", "MemoryError"
    except BaseException:  # noqa: BLE001 (each is told)
        verdict, told = "crashed", traceback.format_exc()
    watch.is_on = False
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if verdict == "ok" and peak > one.limits.memory_mb << 10:
        verdict, told = "large", f"more than {one.limits.memory_mb} MB"
    return verdict, told


def verdict_of(ones, given):
    directory = Path(given["directory"])
    directory.mkdir()
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reads)
        run(ones, directory, given["url"], writes)
    os.close(writes)
    began = time.monotonic()
    wall = max(one.limits.wall for one in ones)
    said, is_late = b"", False
    exited = os.pidfd_open(pid)
    while True:
        left = began + wall - time.monotonic()
        ready, _, _ = select.select([reads, exited], [], [], max(0, left))
        if reads in ready and (data := os.read(reads, 65536)):
            said += data
            continue
        is_late = not ready
        break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    if is_late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(exited)
    os.close(reads)
    lines = [json.loads(line) for line in said.splitlines()]
    escapes = [text for verdict, text, *_ in lines if verdict == "escaped"]
    done = [line for line in lines if line[0] != "escaped"]
    one = ones[min(len(done), len(ones) - 1)]
    verdict, told = "crashed", "it ended without a result"
    if done and (len(done) == len(ones) or done[-1][0] != "ok"):
        verdict, told, name = done[-1]
        one = next(each for each in ones if each.name == name)
    if escapes:
        one = ones[[line[0] for line in lines].index("escaped")]
        verdict, told = "escaped", "\n".join(escapes[:20])
    elif is_late:
        verdict, told = "hung", f"more than {wall:g} seconds"
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        is_cpu = number == signal.SIGXCPU
        verdict = "hung" if is_cpu else "crashed"
        told = signal.Signals(number).name
    return {
        "name": one.name,
        "verdict": verdict,
        "told": told,
    }


def main():
    faulthandler.enable()
    warm.imports()
    corpus = load(sys.argv[1:])
    gc.collect()
    gc.freeze()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        given = json.loads(line)
        ones = [corpus[name] for name in given["names"]]
        out.write(json.dumps(verdict_of(ones, given)) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
