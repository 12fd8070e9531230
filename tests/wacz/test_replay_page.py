"""docs/wacz.md, "Replay": each of its commands, as it stands there, in its order."""

import contextlib
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from frontier.cdx.lines import parse
from tests import foreign
from tests.topologies import free_ports, until

PAGE = Path(__file__).parents[2] / "docs" / "wacz.md"
SCRIPTS = Path(sys.executable).parent
SHOWN, OURS = "https://example.org/", "http://example.com/0"
BODIES = [b"<title>One</title>one", b"<p>two</p>", b"<title>One</title>one"]


def commands():
    section = PAGE.read_text("utf-8").partition("\n## Replay\n")[2]
    blocks = re.findall(r"^```console\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]


def environment(place, words):
    """Have what ``pip install`` would install be at *place*, from what is kept."""
    bin_of = foreign.python(*words.split(" install ")[1].split())
    (place / "bin").mkdir(parents=True)
    for tool in bin_of.iterdir():
        (place / "bin" / tool.name).symlink_to(tool)


def is_up(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@pytest.mark.compat
def test_each_command_of_the_page_does_what_it_says(tmp_path, write_warc):
    write_warc("c-1", BODIES)
    (port,) = free_ports(1)
    path = f"{SCRIPTS}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    said, served = {}, None
    try:
        for command in commands():
            words = command.replace(SHOWN, OURS).replace("8080", str(port))
            if words.startswith("python3 -m venv"):
                continue  # made with what is installed into it, once for all tests
            if "/bin/pip install" in words:
                environment(tmp_path / words.partition("/")[0], words)
            elif words.endswith(" &"):
                served = subprocess.Popen(
                    words.removesuffix(" &").split(),
                    cwd=tmp_path,
                    env=env,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                until(lambda: is_up(port), "the start of pywb")
            else:
                done = subprocess.run(
                    words, shell=True, cwd=tmp_path, env=env, capture_output=True
                )
                assert done.returncode == 0, (words, done.stdout, done.stderr)
                said[command] = done.stdout
    finally:
        if served is not None:
            served.kill()
            served.wait()

    replayed = [out for words, out in said.items() if words.startswith("curl")]
    assert replayed == [BODIES[0]] * 2
    lines = (tmp_path / "index.cdxj").read_bytes().splitlines()
    urls = [parse(line).url for line in lines if not line.startswith(b"urn:")]
    assert sorted(urls) == [f"http://example.com/{n}" for n in range(3)]
    assert all(b"sound" in out for words, out in said.items() if "wacz check" in words)
