"""Runs what a page shows, as a reader would who types it into one terminal.

    Page.read(ROOT / "docs" / "tutorial.md").run(empty_directory)

What a page may have, and what the runner makes of it:

* A block ``console``: lines that begin with ``$`` are commands, lines that begin with
  ``>`` go on with one. All commands of a page run in one Bash, in their order. Each has
  to end with 0; a page that shows a failure asks for ``$ echo $?`` next.
* Lines below a command are what it prints, stdout and stderr together. ``...`` as a
  line stands for any lines, ``...`` in a line for any text. A command with no such
  lines may print what it likes.
* A block of any language after a sentence that ends with "Save as `PATH`:" is written
  to that file; after one that ends with "Add to `PATH`:" it is put at its end.
* A comment of HTML in the line above a block says how to compare:
  ``<!-- figures vary -->``: a number stands for any, but 0 for 0 and no other for 0;
  a time of day for any, kB for MB, and columns may be wider;
  ``<!-- repeat until so -->``: the command is run again until it prints that.
  Both: ``<!-- figures vary, repeat until so -->``.
* A comment in the block, ``# Not run by our tests: REASON``, is for the reader as well:
  commands below it are counted and not run.
* Numbers after ``--port`` are replaced by free ports, wherever they stand on the page
  and in the files that are in the directory at the beginning. What is started there in
  the background is waited for until it listens.

Whatever the page has started, also in the background or as a daemon, has ended when
`Page.run` returns or raises: all of it has a mark in its environment.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0
"""Seconds after which a command is taken to hang: nothing that works comes near."""
PAUSE = 0.2
MARK = "TEST_PAGE"
NOT_RUN = "# Not run by our tests: "
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOW = re.compile(r"<!-- ([a-z, ]+) -->\n\Z")
FILE = re.compile(r"\b(Save as|Add to)\s+`([^`]+)`:\s*\Z")
PORT = re.compile(r"--port[ =](\d{4,5})\b")
FIGURE = re.compile(
    r"(?P<time>\d\d:\d\d(?::\d\d(?:\\\.\d+)?)?)|\d(?:(?:\\\.|,|\d)*\d)?"
)
TIME = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
SIZE = re.compile(r"\\ (?:bytes|[kMG]B)\b")
WAYS = {"figures vary", "repeat until so"}


class PageFailed(AssertionError):
    """A command of a page did not do what the page says."""


@dataclass(frozen=True)
class Command:
    """One command of a page, and what the page says that it prints."""

    text: str
    line: int
    shown: tuple[str, ...] = ()
    ways: frozenset[str] = frozenset()
    not_run: str = ""

    def prints(self, said: list[str]) -> bool:
        """Whether *said* is what is shown."""
        if not self.shown:
            return True
        return bool(re.fullmatch(self._pattern(), "".join(f"{s}\n" for s in said)))

    def _pattern(self) -> str:
        made = []
        for line in self.shown:
            if line.strip() == "...":
                made.append(r"(?:.*\n)*?")
                continue
            text = re.escape(line).replace(r"\.\.\.", ".*")
            if "figures vary" in self.ways:
                text = FIGURE.sub(_any_figure, text)
                text = SIZE.sub(lambda _: "\\ (?:bytes|[kMG]B)", text)
                text = re.sub(r"(?:\\ )+", lambda _: " +", text)
            made.append(text + r"\s*\n")
        return "".join(made)


@dataclass(frozen=True)
class WrittenFile:
    """A file that the page has the reader write."""

    path: str
    text: str
    append: bool


@dataclass
class Page:
    """A page, as the steps that a reader takes."""

    path: Path
    steps: list[Command | WrittenFile] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path, section: str = "") -> Page:
        """The page at *path*, or what it has under the heading *section*.

        Raises `PageFailed` if a comment on a block means nothing.
        """
        page = cls(path)
        text = path.read_text("utf-8")
        begin, end = 0, len(text)
        if section:
            begin = text.index(f"\n## {section}\n") + 1
            end = text.find("\n## ", begin) % (len(text) + 1)
        for block in FENCE.finditer(text, begin, end):
            language, body = block.groups()
            above = text[: block.start()]
            line = above.count("\n") + 2
            how = HOW.search(above)
            ways = frozenset(how[1].split(", ")) if how else frozenset()
            if not ways <= WAYS:
                raise PageFailed(f"{path}:{line - 2}: {how and how[1]} means nothing")
            if language == "console":
                page.steps += _commands(body, line, ways)
            elif file := FILE.search(above[-400:]):
                page.steps.append(WrittenFile(file[2], body, file[1] == "Add to"))
        return page

    @property
    def commands(self) -> list[Command]:
        """All commands, also those that are not run."""
        return [step for step in self.steps if isinstance(step, Command)]

    @property
    def not_run(self) -> list[Command]:
        """The commands that the page says are not run."""
        return [command for command in self.commands if command.not_run]

    def run(
        self,
        directory: Path,
        *,
        commands: Path = Path(sys.executable).parent,
        environment: dict[str, str] | None = None,
    ) -> int:
        """Do what the page says in *directory*; return how many commands were run.

        *commands* is the directory in which ``frontier`` and ``scrapy`` are found.
        Raises `PageFailed` with the page's line, what was shown and what was printed.
        """
        ports = _free_ports(self.commands)
        for file in directory.rglob("*"):
            if file.is_file() and file != self.path:
                text = file.read_text("utf-8")
                file.write_text(_with_ports(text, ports), "utf-8")
        count = 0
        with _Terminal(directory, commands, environment or {}) as terminal:
            for step in self.steps:
                if isinstance(step, WrittenFile):
                    file = directory / step.path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with file.open("a" if step.append else "w") as stream:
                        stream.write(_with_ports(step.text, ports))
                elif not step.not_run:
                    count += 1
                    self._run(terminal, step, ports)
        return count

    def _run(
        self, terminal: _Terminal, command: Command, ports: dict[str, str]
    ) -> None:
        text = _with_ports(command.text, ports)
        asked = replace(
            command, shown=tuple(_with_ports(line, ports) for line in command.shown)
        )
        deadline = time.monotonic() + PATIENCE
        where = f"{self.path.name}:{command.line}: $ {text}"
        while True:
            code, said = terminal.type(text, where)
            good = asked.prints(said) and (not code or self._failure_follows(command))
            if good or "repeat until so" not in command.ways:
                break
            if time.monotonic() > deadline:
                break
            time.sleep(PAUSE)  # what is asked about has no event for us to wait for
        if text.endswith("&"):
            _wait_for_ports(text, where)
        if not good:
            shown = "\n".join(asked.shown) or "(anything)"
            printed = "\n".join(said)
            raise PageFailed(
                f"{where}\n--- exit code {code}; shown:\n{shown}\n--- said:\n{printed}"
            )

    def _failure_follows(self, command: Command) -> bool:
        """Whether the page asks for the exit code of *command*."""
        at = self.steps.index(command) + 1
        following = self.steps[at] if at < len(self.steps) else None
        return isinstance(following, Command) and following.text == "echo $?"


def _commands(body: str, line: int, ways: frozenset[str]) -> list[Command]:
    found: list[Command] = []
    not_run = ""
    for number, text in enumerate(body.splitlines(), line):
        if text.startswith(NOT_RUN):
            not_run = text.removeprefix(NOT_RUN)
        elif text.startswith("$ "):
            found.append(Command(text[2:], number, (), ways, not_run))
        elif text.startswith("> ") and found and not found[-1].shown:
            found[-1] = replace(found[-1], text=f"{found[-1].text}\n{text[2:]}")
        elif found:
            found[-1] = replace(found[-1], shown=(*found[-1].shown, text))
        elif text.strip() and not text.startswith("#"):
            raise PageFailed(f"line {number}: {text!r} is printed by no command")
    return [replace(each, shown=_without_blank_end(each.shown)) for each in found]


def _any_figure(figure: re.Match[str]) -> str:
    if figure["time"]:
        return TIME
    if figure[0] == "0":
        return r"0(?![\d.,]*\d)"
    return r"(?=[\d.,]*[1-9])\d[\d.,]*" if figure[0].strip("0.,\\") else r"\d[\d.,]*"


def _wait_for_ports(text: str, where: str) -> None:
    """Return once what *text* has started listens: readers are slower than we are."""
    deadline = time.monotonic() + PATIENCE
    for port in map(int, PORT.findall(text)):
        while not _listens(port):
            if time.monotonic() > deadline:
                raise PageFailed(f"{where}\n--- nothing listens on {port}")
            time.sleep(PAUSE)


def _listens(port: int) -> bool:
    """Whether anything does, on this machine or where the built-in site is."""
    for address in ("127.0.0.1", "127.0.0.2"):
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return True
    return False


def _without_blank_end(lines: tuple[str, ...]) -> tuple[str, ...]:
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    return lines


def _free_ports(commands: list[Command]) -> dict[str, str]:
    named = dict.fromkeys(
        port for command in commands for port in PORT.findall(command.text)
    )
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in named]
    found = [str(each.getsockname()[1]) for each in taken]
    for each in taken:
        each.close()
    return dict(zip(named, found, strict=True))


def _with_ports(text: str, ports: dict[str, str]) -> str:
    for shown, used in ports.items():
        text = re.sub(rf"\b{shown}\b", used, text)
    return text


class _Terminal:
    """A Bash in a directory. Its processes are marked, and end with it."""

    def __init__(
        self, directory: Path, commands: Path, environment: dict[str, str]
    ) -> None:
        self._mark = uuid.uuid4().hex
        script, self._input = os.pipe()
        kept = ("HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "LD_LIBRARY_PATH")
        kept += ("PIP_CONFIG_FILE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"
        env |= environment | {MARK: self._mark}
        self._directory = directory.resolve()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", f"/dev/fd/{script}"],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[script],
            start_new_session=True,
        )
        os.close(script)
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        self._send("set -m\n")  # jobs: %1, and Ctrl-C does not reach those behind
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._input)
        while marked := _marked(self._mark, self._directory):
            for pid in marked:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            time.sleep(PAUSE)
        self._process.wait()
        self._reader.join()

    def type(self, command: str, where: str) -> tuple[int, list[str]]:
        """Run *command*; return its exit code and the lines it printed."""
        end = f"end-{uuid.uuid4().hex}"
        self._send(
            f"{command}\n"
            f"__code=$?; printf '\\n%s %s\\n' {end} $__code; (exit $__code)\n"
        )
        said: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except queue.Empty:
                printed = "\n".join(said)
                raise PageFailed(f"{where}\n--- hangs; said:\n{printed}") from None
            if line.startswith(end):
                return int(line.split()[1]), list(_without_blank_end(tuple(said)))
            said.append(line)

    def _send(self, text: str) -> None:
        os.write(self._input, text.encode())

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.decode(errors="replace").rstrip("\n"))


def _marked(mark: str, directory: Path) -> list[int]:
    """The processes with *mark* in their environment, zombies left out.

    And those in *directory*: a server writes its title where its environment was.
    """
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                marked = wanted in (entry / "environ").read_bytes().split(b"\0")
                marked = marked or (entry / "cwd").readlink().is_relative_to(directory)
            except OSError:
                continue
            if marked:
                found.append(int(entry.name))
    return found
