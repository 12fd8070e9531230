"""Completion in real shells, and man pages in real formatters."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.console import ROOT

MAN = sorted((ROOT / "share" / "man" / "man1").glob("*.1"))
PATIENCE = 120.0
HEAVY = (
    *("scrapy", "twisted", "lxml", "tldextract", "redis"),
    *("starlette", "uvicorn", "jinja2", "prometheus_client", "duckdb", "pyarrow"),
)
WORDS = {
    "frontier cra": ["plain,crawl"],
    "frontier crawl sta": ["plain,status"],
    "frontier crawl run --limit-": [
        f"plain,--limit-{what}" for what in ("pages", "time", "bytes")
    ],
}


def needs(tool):
    """Skip where *tool* is missing, but not where all of them have to be there."""
    if shutil.which(tool) is None and os.environ.get("TEST_SERVERS") != "all":
        pytest.skip(f"{tool} is not installed")


class Terminal:
    """A shell with a terminal of its own, and nobody's settings."""

    def __init__(self, shell, home):
        self.home = home
        self.said = b""
        env = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SHELL": shell,
            "TERM": "xterm",
        }
        self.pid, self._ours = pty.fork()
        if not self.pid:
            os.chdir(home)
            os.execvpe(shell, [shell, "-i"], env)

    def type(self, keys):
        os.write(self._ours, keys.encode())

    def wait_for(self, file):
        """Read what the shell prints until it has written *file*."""
        deadline = time.monotonic() + PATIENCE
        while not (self.home / file).exists():
            assert time.monotonic() < deadline, self.said.decode(errors="replace")
            if select.select([self._ours], [], [], 0.1)[0]:
                self.said += os.read(self._ours, 65536)

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._ours)


@pytest.mark.parametrize(("shell", "tab"), [("bash", 1), ("zsh", 2), ("fish", 1)])
def test_a_shell_completes_nouns_verbs_and_options(shell, tab, tmp_path):
    """In zsh the first TAB of a shell loads the completion: it is pressed twice."""
    needs(shell)
    terminal = Terminal(shell, tmp_path)
    try:
        made = f"env _FRONTIER_COMPLETE={shell}_source frontier"
        line = f"{made} | source" if shell == "fish" else f'eval "$({made})"'
        first = "autoload -Uz compinit; compinit; " * (shell == "zsh")
        terminal.type(f"{first}{line}; echo > ready\r")
        terminal.wait_for("ready")
        tabs = "\t" * tab
        terminal.type(f"frontier cra{tabs}li\t--js\t--help > out; echo > done\r")
        terminal.wait_for("done")
    finally:
        terminal.close()

    assert "Usage: frontier crawl list" in (tmp_path / "out").read_text()


@pytest.mark.parametrize("line", WORDS)
def test_a_completion_imports_nothing_heavy(line, tmp_path):
    code = (
        "import atexit, sys\n"
        f"loaded = lambda: [name for name in {HEAVY} if name in sys.modules]\n"
        "atexit.register(lambda: print('loaded:', *loaded()))\n"
        "from frontier.cli import main\n"
        "sys.argv[0] = 'frontier'\n"
        "main()\n"
    )
    env = os.environ | {
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
        "_FRONTIER_COMPLETE": "bash_complete",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
    )

    assert done.stdout.splitlines() == [*WORDS[line], "loaded:"], done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["mandoc", "-Tlint", "-Wall"],
        ["groff", "-ww", "-man", "-Kutf8", "-Tutf8", "-z"],
        ["man", "--warnings", "-l"],
    ],
    ids=lambda command: command[0],
)
def test_no_formatter_complains_about_a_man_page(command):
    needs(command[0])
    assert len(MAN) > 10
    complaints = {}
    for page in MAN:
        done = subprocess.run(
            [*command, str(page)], capture_output=True, text=True, check=False
        )
        said = done.stderr + (done.stdout if "-Tlint" in command else "")
        if said or done.returncode:
            complaints[page.name] = said
    assert complaints == {}
