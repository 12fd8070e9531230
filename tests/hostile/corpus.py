"""The corpus of hostile inputs: what each is, and what must come of it.

An input is a function that makes something hostile, hands it to the part that reads
it, and asserts what comes of that::

    @hostile("seeds/a-nul-in-a-url")
    def _(given):
        path = given.file("seeds.txt", b"http://example.org/a\\0b\\n")
        said = given.command("crawl", "seed", "--spider", "site", path)
        assert said.code == ExitCode.INCOMPLETE
        assert "control character" in said.err

It runs in a process of its own (`tests.hostile.child`), which must end within
`Limits`, write no file but below `Given.directory`, open nothing that `Given.bait`
made, contact no address but loopback ones, and start no program. Whatever it
raises, but `AssertionError`, is a crash. See README.md.
"""

import contextlib
import importlib
import io
import os
import re
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from unittest import mock

INPUTS = Path(__file__).parent / "inputs"
CONTROLS = re.compile(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]|[\ud800-\udfff]")
"""What must not reach a terminal."""


@dataclass(frozen=True)
class Limits:
    """What one input may use."""

    cpu: int = 10
    """Seconds of CPU time."""
    wall: float = 300.0
    """Seconds until it counts as hung; much more than any takes."""
    memory_mb: int = 400
    """Largest part of it that is in memory, with 130 MB of imported modules."""


@dataclass(frozen=True)
class Input:
    name: str
    run: object
    limits: Limits = field(default_factory=Limits)
    parts: object = ()
    """Names of what it tries together, where *run* takes one of them as ``only``."""

    @property
    def count(self):
        """Inputs that it is."""
        return len(self.parts) or 1


REGISTRY = {}


def hostile(name, parts=(), **limits):
    """Put a function into the corpus as the input *name*, ``kind/what-it-is``."""

    def put(function):
        assert re.fullmatch(r"[a-z]+/[a-z0-9.-]+", name), name
        assert name not in REGISTRY, f"{name} is there twice"
        REGISTRY[name] = Input(name, function, Limits(**limits), parts)
        return function

    return put


def hostile_each(kind, cases, **limits):
    """Put a function into the corpus once for each of *cases*, name to arguments."""

    def put(function):
        for name, arguments in cases.items():
            if not isinstance(arguments, tuple):
                arguments = (arguments,)

            def run(given, arguments=arguments):
                function(given, *arguments)

            hostile(f"{kind}/{name}", **limits)(run)
        return function

    return put


def load(modules=()):
    """The corpus: all inputs by their names; those of *modules*, too."""
    every = [f"tests.hostile.inputs.{path.stem}" for path in INPUTS.glob("*.py")]
    for name in (*sorted(every), *modules):
        importlib.import_module(name)
    return REGISTRY


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    def __post_init__(self):
        assert "Traceback (most recent" not in self.out + self.err, self.err[-2000:]
        for text in (self.out, self.err):
            found = CONTROLS.search(text)
            assert found is None, f"{found[0]!r} is printed: {text[-500:]!r}"


class Given:
    """What an input has at its disposal."""

    def __init__(self, directory, url, watch):
        self._watch = watch
        self.directory = directory / "here"
        self.directory.mkdir()
        self._baits = directory / "bait"
        self._baits.mkdir()
        self.url = url
        self.unique = directory.name

    def file(self, name, data=b""):
        """The path of a file with *data*: text, bytes, or pieces of bytes."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(data, str):
            data = data.encode()
        if isinstance(data, bytes):
            data = (data,)
        with path.open("wb") as file:
            for piece in data:
                file.write(piece)
        return path

    def bait(self, name, data=b"secret"):
        """The path of a file that nobody may open, outside of the directory."""
        path = self._baits / name
        self._watch.is_on = False
        path.write_bytes(data)
        self._watch.is_on = True
        return path

    def command(self, *words, given="", raw=False, **env):
        """Run ``frontier`` with *words* in the directory, and *given* as its input."""
        from frontier.cli import main

        out, err, source = (self.directory / f".{n}" for n in ("out", "err", "in"))
        source.write_text(given)
        env = {"REDIS_URL": self.url, "FRONTIER_COLLECTION": self.unique, **env}
        code = 0
        with contextlib.ExitStack() as stack:
            enter = stack.enter_context
            files = [source.open("rb"), out.open("wb"), err.open("wb")]
            for number, file in enumerate(map(enter, files)):
                stack.callback(os.close, kept := os.dup(number))
                stack.callback(os.dup2, kept, number)
                os.dup2(file.fileno(), number)
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                stream = io.TextIOWrapper(
                    io.FileIO(number, "r" if number == 0 else "w", closefd=False),
                    encoding="utf-8",
                    errors="backslashreplace" if number == 2 else "strict",
                    line_buffering=number == 2,
                )
                enter(mock.patch.object(sys, name, stream))
            enter(mock.patch.object(sys, "argv", ["frontier", *map(str, words)]))
            enter(mock.patch.dict(os.environ, {k: v for k, v in env.items() if v}))
            try:
                main()
            except SystemExit as end:
                code = end.code or 0
            finally:
                for stream in (sys.stdout, sys.stderr):
                    with contextlib.suppress(OSError, ValueError):
                        stream.flush()
        texts = [p.read_bytes().decode("utf-8", "replace") for p in (out, err)]
        assert isinstance(code, int), code
        if raw:
            texts[0] = ""
        return Said(int(code), *texts)

    @cached_property
    def store(self):
        """A client of the store; its keys are to have `unique` in their names."""
        from frontier.store.client import BlockingStore

        return BlockingStore.from_settings({"REDIS_URL": self.url})

    def redis(self, *words):
        from frontier.store.client import Call

        return self.store.call(Call.command(*words))

    @property
    def imported(self):
        """How many captures the collection of the commands has."""
        found = self.redis("HGET", f"{self.unique}:allcounts", "totalUrls")
        return int(found or 0)


@contextlib.contextmanager
def refused(kind, text=""):
    """Assert that an error of *kind* is raised, and that its message has *text*."""
    try:
        yield
    except kind as error:
        assert text in str(error), f"{text!r} is not in {str(error)[:500]!r}"
        assert len(str(error)) < 5_000, f"a message of {len(str(error)):,} characters"
    else:
        raise AssertionError(f"no {kind.__name__} was raised")
