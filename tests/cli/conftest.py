import asyncio
import contextlib
import json
import os
import pty
import sys
from pathlib import Path

import pytest
import warm

from tests.harness import commands

ROOT = Path(__file__).parents[2]


@pytest.fixture
def environment():
    """Without what a user may have set of ours."""
    unset = {"REDIS_URL", "COLUMNS"}
    kept = {k: v for k, v in os.environ.items() if k not in unset}
    return kept | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def frontier(tmp_path, environment):
    """Run ``frontier`` with arguments in the test's directory.

    What starts nodes is a process, and what a test that is a coroutine runs; all
    else is run in this one.
    """

    def run(*arguments):
        starts_nodes = arguments[:2] == ("crawl", "run") or arguments[:1] == ("demo",)
        if not starts_nodes and asyncio._get_running_loop() is None:
            return commands.run(*arguments, cwd=tmp_path, env=environment)
        return warm.run(
            [sys.executable, "-m", "frontier", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    return run


@pytest.fixture
def shown(frontier):
    """What ``frontier`` with arguments shows as JSON."""
    return lambda *arguments: json.loads(frontier(*arguments, "--json").stdout)


@pytest.fixture
def terminal(tmp_path, environment):
    """Run ``frontier`` as in a terminal; return its code and all it said."""

    def run(*arguments, answer="", columns="200"):
        env = environment | {"TERM": "xterm", "COLUMNS": columns}
        ours, theirs = pty.openpty()
        try:
            with warm.Popen(
                [sys.executable, "-m", "frontier", *arguments],
                cwd=tmp_path,
                env=env,
                stdin=theirs,
                stdout=theirs,
                stderr=theirs,
            ) as process:
                os.close(theirs)
                os.write(ours, answer.encode())
                said = b""
                with contextlib.suppress(OSError):  # what a closed terminal raises
                    while data := os.read(ours, 4096):
                        said += data
            return process.returncode, said.decode()
        finally:
            os.close(ours)

    return run


@pytest.fixture
def server(servers):
    """One kind of server: what a command does with it is tested below the commands."""
    found = servers("any")
    found.check()
    return found
