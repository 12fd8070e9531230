"""``frontier`` as a command, in this process: a hundred times cheaper than a new one.

The command has the streams, arguments, environment and directory that it would have
as a process, and what it changes of this process is put back. Signals, terminals and
what is imported need a process: `tests.integration.warm` forks one.
"""

import contextlib
import gc
import io
import logging
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

NAMES = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class Done:
    """What `subprocess.CompletedProcess` says, too."""

    returncode: int
    stdout: str
    stderr: str


def output_of(words, **options):
    """What another program prints, which has to succeed."""
    done = subprocess.run(words, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def printed(code, **options):
    """What another process prints that runs the Python *code*."""
    return output_of([sys.executable, "-c", code], **options)


def one_line(done):
    """What a command has said that was refused: one line, on stderr alone."""
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("frontier: ")
    return line


def run(
    *words,
    cwd=None,
    env=None,
    given="",
    stdout=None,
):
    """Run ``frontier`` with *words*, and *given* as its input.

    *env* is the whole environment, if it is given, and *stdout* an open file.
    An exception that a process would have died of is raised.
    """
    from frontier.cli import main

    env = dict(os.environ if env is None else env)
    code: object = 0
    with contextlib.ExitStack() as stack:
        files = [
            stack.enter_context(os.fdopen(os.memfd_create(n), "w+b")) for n in NAMES
        ]
        files[0].write(given.encode())
        files[0].seek(0)
        shown = [files[0].fileno(), (stdout or files[1]).fileno(), files[2].fileno()]
        for number, file in enumerate(shown):
            stack.callback(os.close, kept := os.dup(number))
            stack.callback(os.dup2, kept, number)
            os.dup2(file, number)
        for number, name in enumerate(NAMES):
            stack.enter_context(mock.patch.object(sys, name, _stream(number, env)))
        argv = [w if isinstance(w, bytes) else str(w) for w in ("frontier", *words)]
        stack.enter_context(mock.patch.object(sys, "argv", [*map(os.fsdecode, argv)]))
        stack.enter_context(mock.patch.dict(os.environ, env, clear=True))
        stack.enter_context(_directory(Path(cwd or Path.cwd())))
        stack.enter_context(_own_logging())
        stack.callback(gc.unfreeze)
        stack.callback(gc.set_threshold, *gc.get_threshold())
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        finally:
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
        said = [_text(file) for file in files[1:]]
    assert isinstance(code, int), code
    return Done(int(code), *said)


def _text(file):
    file.seek(0)
    text: str = file.read().decode("utf-8", "replace")
    return text


def _stream(number, env):
    return io.TextIOWrapper(
        io.FileIO(number, "r" if number == 0 else "w", closefd=False),
        encoding=env.get("PYTHONIOENCODING", "utf-8"),
        errors="backslashreplace" if number == 2 else "strict",
        line_buffering=number == 2,
    )


@contextlib.contextmanager
def _directory(path):
    """Be in it, with ``sys.path`` as of ``python -m``; forget modules that are there.

    The next test has others of the same names in another directory.
    """
    before, known = Path.cwd(), set(sys.modules)
    os.chdir(path)
    try:
        with mock.patch.object(sys, "path", [str(path), *sys.path]):
            yield
    finally:
        os.chdir(before)
        if path != before:
            for name in set(sys.modules) - known:
                place = getattr(sys.modules[name], "__file__", None)
                if place and Path(place).is_relative_to(path):
                    del sys.modules[name]


@contextlib.contextmanager
def _own_logging():
    """Have warnings on stderr, where nobody takes them: pytest would."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.handlers[:] = []
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
