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
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from frontier.cli.output import ExitCode
from tests.harness import commands

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


REGISTRY = {}


def hostile(name, **limits):
    """Put a function into the corpus as the input *name*, ``kind/what-it-is``."""

    def put(function):
        assert re.fullmatch(r"[a-z]+/[a-z0-9.-]+", name), name
        assert name not in REGISTRY, f"{name} is there twice"
        REGISTRY[name] = Input(name, function, Limits(**limits))
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
        here = {"REDIS_URL": self.url, "FRONTIER_COLLECTION": self.unique, **env}
        env = {**os.environ, **{name: value for name, value in here.items() if value}}
        done = commands.run(*words, env=env, given=given)
        return Said(done.returncode, "" if raw else done.stdout, done.stderr)

    def incomplete(self, *words):
        """What a command says that has to leave something out."""
        said = self.command(*words)
        assert said.code == ExitCode.INCOMPLETE, said
        return said

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
