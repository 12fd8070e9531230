"""TEST_STORE=redis://...: tests on a server that runs already, as on GitHub."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.topologies import Process, free_ports

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
FILE = "tests/queue/test_claims.py"


@pytest.fixture
def elsewhere(binary, tmp_path):
    """Debian's server, on a port."""
    (port,) = free_ports(1)
    options = ["--port", str(port), "--save", ""]
    server = Process(binary("redis-7"), tmp_path / "server", port, port, *options)
    server.launch()
    server.wait()
    yield server
    server.kill()


def run_on(server):
    words = [sys.executable, "-m", "pytest", "-q", "-m", "store", "-p", "no:twisted"]
    return subprocess.run(
        [*words, "-p", "no:cacheprovider", FILE],
        cwd=ROOT,
        env={**os.environ, "TEST_STORE": f"redis://127.0.0.1:{server.port}"},
        capture_output=True,
        text=True,
    )


def test_tests_on_a_named_server_leave_no_keys(elsewhere):
    done = run_on(elsewhere)

    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
    assert "cmdstat_evalsha" in elsewhere.ask("INFO", "commandstats")
    assert elsewhere.ask("DBSIZE") == 0


def test_tests_refuse_a_server_with_keys(elsewhere):
    elsewhere.ask("SET", "somebody", "else's")
    done = run_on(elsewhere)

    assert done.returncode != 0
    assert "has keys, which tests would remove" in done.stdout + done.stderr
    assert elsewhere.ask("KEYS", "*") == [b"somebody"]
