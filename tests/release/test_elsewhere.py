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


def test_tests_refuse_a_server_with_keys(elsewhere):
    elsewhere.ask("SET", "somebody", "else's")
    words = [sys.executable, "-m", "pytest", "-q", "-m", "store", "-p", "no:twisted"]
    done = subprocess.run(
        [*words, "-p", "no:cacheprovider", FILE],
        cwd=ROOT,
        env={**os.environ, "TEST_STORE": f"redis://127.0.0.1:{elsewhere.port}"},
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert "has keys, which tests would remove" in done.stdout + done.stderr
    assert elsewhere.ask("KEYS", "*") == [b"somebody"]
