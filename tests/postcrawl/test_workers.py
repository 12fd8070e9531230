"""Processes that do many files at once end with the command that began them."""

import os
import subprocess
import sys
import threading
from pathlib import Path

from tests.topologies import until

COMMAND = """
from pathlib import Path
from frontier.postcrawl.many_files import Work, each
from tests.postcrawl.test_workers import wait_for_ever
if __name__ == "__main__":
    list(each(wait_for_ever, [(Path(str(n)),) for n in range(2)], Work(workers=2)))
"""


def wait_for_ever(path):
    """Say which process does *path*, and never end."""
    path.write_text(str(os.getpid()))
    path.rename(f"{path}.pid")
    threading.Event().wait()


def is_alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_processes_end_when_their_command_is_killed(tmp_path):
    root = Path(__file__).parents[2]
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    until(lambda: len([*tmp_path.glob("*.pid")]) == 2, "both")
    files = tmp_path.glob("*.pid")
    pids = [int(path.read_text()) for path in files]
    command.kill()
    command.wait()

    until(lambda: not any(map(is_alive, pids)), "their end")
