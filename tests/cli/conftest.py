import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def frontier(tmp_path):
    """Run ``frontier`` with arguments in the test's directory."""
    env = {k: v for k, v in os.environ.items() if k not in {"REDIS_URL", "COLUMNS"}}
    env["PYTHONPATH"] = str(ROOT)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "frontier", *arguments],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
