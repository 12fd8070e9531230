"""Runs a module of the harness in a process of its own, as its time is virtual."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(name, *words):
    """What ``python -m tests.harness.NAME WORDS`` has done."""
    return subprocess.run(
        [sys.executable, "-m", f"tests.harness.{name}", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,  # only so that a loop without an end fails
        check=False,
    )
