"""Nodes as processes of this machine, each with a log file.

What always holds:

1.  A node is in a session of its own, so that a terminal's Ctrl-C reaches it
    once, through `NodeProcesses.signal`, and not twice: Scrapy takes a second one as
    the wish to stop at once.
2.  After `NodeProcesses.wait` no node runs.
3.  What a node is told never appears in the arguments of a process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from typing import TYPE_CHECKING
from urllib.parse import quote

from frontier import json_log
from frontier.errors import UnknownCrawl
from frontier.files import FILE_MODE, creating, mode_of
from frontier.status.snapshot import list_crawls, read_crawl
from frontier.status.validate import printable
from frontier.store.keys import CrawlKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore

KILLS = 3
"""How many signals kill the nodes; Scrapy has a use for the first and the second."""
STOPPING = {
    1: "the nodes finish what is in flight, and stop; again: they stop at once",
    2: "the nodes stop at once: what is in flight will be fetched again; once more: "
    "they are killed, also where a callback hangs",
}
"""What is said of the signals before that."""
STREAMS = (1, 2)
"""The descriptors of stdout and stderr."""
PACE = 0.1
"""Seconds between looks at whether nodes still run."""
TAIL = 8192
"""Bytes at the end of a log in which its last line is."""
MOST_NEWS = 100
"""Lines of the nodes' logs that are shown while they run."""
SHOWN = {"WARNING", "ERROR", "CRITICAL"}

_RECORD = re.compile(r"\S+ \S+ \[[^]]*\] ([A-Z]+): (.*)")
"""The first line of a log record, in Scrapy's format."""


@dataclass(slots=True)
class NodeProcess:
    """One node."""

    node_id: str
    log: Path
    process: subprocess.Popen[bytes]
    _read: int = 0
    """Bytes of its log that `news` has read."""
    latest: str = ""
    """The last line of its news."""

    @property
    def exit_code(self) -> int | None:
        """``None`` while it runs; negative if a signal killed it."""
        return self.process.poll()

    def news(self) -> list[str]:
        """The warnings and errors that its log has got since this was last called."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            text, _, _ = file.read().rpartition(b"\n")
        self._read += len(text) + bool(text)
        lines = text.decode("utf-8", "replace").splitlines()
        found = list(map(printable, _messages(lines)))
        self.latest = (found or [self.latest])[-1]
        return found

    def last_words(self) -> str:
        """The last line of its log; nothing if that is a record."""
        with self.log.open("rb") as file:
            file.seek(-min(TAIL, file.seek(0, 2)), 2)
            lines = file.read().decode("utf-8", "replace").rstrip().splitlines()
        return "" if not lines or _recorded(lines[-1]) else printable(lines[-1].strip())


def _messages(lines: Sequence[str]) -> list[str]:
    """The warnings and errors in *lines*, each with the end of its traceback."""
    found: list[str] = []
    message, end = "", ""
    for line in [*lines, "- - [] END: "]:
        record = _recorded(line)
        if record is None:
            end = line.strip() or end
            continue
        if message:
            found.append(f"{message}: {end}" if end else message)
        level, message, end = record
        if level not in SHOWN:
            message = ""
    return found


def _recorded(line: str) -> tuple[str, str, str] | None:
    """Level and message of a record, and the last line of its traceback.

    The latter is empty if the traceback, if any, follows in lines of its own.
    """
    told = json_log.read(line)
    if told is not None:
        text = f"{told['message']}\n{told.get('exception', '')}"
        lines = [line for line in text.splitlines() if line.strip()] or [""]
        return told.get("level", ""), lines[0], lines[-1].strip() * (len(lines) > 1)
    record = _RECORD.match(line)
    return None if record is None else (record[1], record[2], "")


def _kind(line: str) -> str:
    """What is the same in a warning that is repeated, with another number or advice."""
    return re.sub(r"\d+", "", line.partition(";")[0])


class NodeProcesses:
    """The nodes that one command has started.

    What happens to them is told by *say*, and what went wrong by *complain*.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        complain: Callable[[str], None],
        mode: int = FILE_MODE,
    ) -> None:
        self._say = say
        self._complain = complain
        self._mode = mode
        self.every: list[NodeProcess] = []
        self._heard = self._told = 0
        """How many signals came, and how many of them were reported."""
        self._killed: list[str] = []
        self._complained: set[str] = set()
        """Nodes reported as failed."""
        self.news: dict[str, str] = {}
        """Warnings and errors of nodes by their `_kind`, the first of each."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal was passed on to them."""
        return self._heard > 0

    def start(
        self,
        node_id: str,
        command: Sequence[str],
        *,
        log: Path,
        cwd: Path,
        env: Mapping[str, str],
    ) -> None:
        """Run Scrapy's *command* as *node_id*; what it prints goes to *log*.

        The process reads the command from its standard input: everybody can read
        arguments, and those of settings and spiders may be secrets. If it cannot be
        started, the nodes that run are stopped.
        """
        words = [sys.executable, "-m", "frontier.session.process", node_id]
        try:
            with open(log, "ab", opener=creating(self._mode)) as output:
                process = subprocess.Popen(  # noqa: S603 (our own interpreter, no shell)
                    words,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=cwd,
                    env=dict(env),
                    start_new_session=True,
                )
            if process.stdin is not None:
                with contextlib.suppress(BrokenPipeError), process.stdin as told:
                    told.write(json.dumps([*command]).encode())
        except BaseException:
            self._say(
                f"{node_id} cannot be started; stopping the {len(self.every)} that run"
            )
            self._stop()
            raise
        self.every.append(NodeProcess(node_id, log, process))
        if self.interrupted:  # meanwhile: the signal went to those before it alone
            process.terminate()

    def wait(self, meanwhile: Callable[[], None]) -> None:
        """Return when all have ended; *meanwhile* is called again and again."""
        try:
            while any(node.exit_code is None for node in self.every):
                meanwhile()
                self._tell()
                self.complain()
                time.sleep(PACE)
            self._tell()
            self._pass_on()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        """Have all nodes end, and return when they have."""
        if not self.interrupted:  # a second signal would cut off what is in flight
            self.signal(signal.SIGTERM)
        for node in self.every:
            node.process.wait()

    def _tell(self) -> None:
        """Say what the signals that came have led to; their handler may not print."""
        while self._told < min(self._heard, KILLS):
            self._told += 1
            if self._told == KILLS and self._killed:
                self._complain(
                    f"killed {', '.join(self._killed)}: what was in flight there is "
                    "fetched again when the crawl goes on; nothing is lost"
                )
            elif self._told < KILLS:
                self._say(STOPPING[self._told])

    def _pass_on(self) -> None:
        """Show what nodes warn of, each kind once, whichever node has it first."""
        for node in self.every:
            for line in node.news():
                kind = _kind(line)
                if kind in self.news or len(self.news) > MOST_NEWS:
                    continue
                self.news[kind] = line
                if len(self.news) <= MOST_NEWS:
                    self._complain(f"{node.node_id}: {line}")
                elif len(self.news) == MOST_NEWS + 1:
                    self._complain("what else the nodes warn of is in their logs")

    def complain(self) -> None:
        """Say once of each node that has failed why, and which log tells more.

        Nodes that end after a signal was passed on are not mentioned.
        """
        self._pass_on()
        if self.interrupted:
            return
        for node in self.every:
            code = node.exit_code or 0
            if code == 0 or node.node_id in self._complained:
                continue
            self._complained.add(node.node_id)
            how = f"exit code {code}" if code > 0 else f"signal {-code}"
            self._complain(f"{node.node_id} failed with {how}; its log is {node.log}")
            last = node.last_words() or node.latest * (code > 0)
            if last and not any(last in n for n in self.news.values()):
                self._say(f"  {last}")

    def signal(self, number: int) -> None:
        """Send signal *number* to all that run."""
        for node in self.every:
            if node.exit_code is None:
                node.process.send_signal(number)

    @contextmanager
    def passing_on_signals(self) -> Iterator[None]:
        """While it lasts, signals that would end this process end the nodes instead.

        Each is passed on as SIGTERM: SIGHUP, of a closed terminal, kills a node.
        The third signal kills them: a node whose callback hangs heeds no other.
        What is printed after SIGHUP goes nowhere, if to that terminal.
        """

        def pass_on(number: int, _: object) -> None:
            self._heard += 1
            for stream in STREAMS * (number == signal.SIGHUP):
                try:
                    os.write(stream, b"")
                except OSError:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            if self._heard < KILLS:
                self.signal(signal.SIGTERM)
                return
            running = [each for each in self.every if each.exit_code is None]
            self._killed += [each.node_id for each in running]
            self.signal(signal.SIGKILL)

        before = {
            number: signal.signal(number, pass_on)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(number) is not signal.SIG_IGN  # as under nohup
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def failed(self) -> list[NodeProcess]:
        """The nodes that did not end with exit code 0."""
        return [node for node in self.every if node.exit_code != 0]


def free_ids(
    store: BlockingStore,
    spider: str,
    count: int,
    log_dir: Path,
    config: Config,
    held: contextlib.ExitStack,
) -> list[str]:
    """Names for *count* nodes that no other node of the crawl has, or has had.

    A node with an earlier one's name would overwrite its report, and would stop it if
    it runs. This is for the embedded store: on a server, other machines may start nodes
    at the same moment. Here ``node-1`` and up will do: each command holds, until *held*
    is closed, a lock on a file in *log_dir* for each of its nodes, as they may not have
    entered a crawl yet.
    """
    every = list_crawls(store, config.namespace)
    open_ones = [c.crawl_id for c in every if c.spider == spider and c.state == "open"]
    taken: set[str] = set()
    for crawl_id in [config.crawl_id] if config.crawl_id else open_ones:
        with contextlib.suppress(UnknownCrawl):  # it need not be there yet
            nodes = read_crawl(store, CrawlKeys(config.namespace, crawl_id)).nodes
            taken |= {*nodes.beats, *nodes.figures}
    opener = creating(mode_of(config.file_mode))
    free: list[str] = []
    number = 1
    while len(free) < count:
        node_id = f"node-{number}"
        lock = log_dir / f".{quote(spider, safe='')}-{node_id}.lock"
        if node_id not in taken and _holds(FileIO(lock, "a", opener=opener), held):
            free.append(node_id)
        number += 1
    return free


def _holds(file: FileIO, held: contextlib.ExitStack) -> bool:
    """Lock *file* until *held* is closed; false if another command has the lock."""
    held.enter_context(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # the file system has no locks
    return True
