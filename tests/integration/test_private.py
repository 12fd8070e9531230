"""What others on a machine can see: modes of files, and lists of arguments."""

import json
import os
import stat
import sys

import pytest

from tests.harness.commands import output_of
from tests.rawsite import RawSite

PAGE = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\n<p>"
SETTINGS = """
import os
from pathlib import Path

import scrapy

SPIDER_MODULES = ["settings"]
ADDONS = {"frontier.addon.Addon": 100}
TELNETCONSOLE_ENABLED = False


class Private(scrapy.Spider):
    name = "private"

    async def start(self):
        yield scrapy.Request(self.page)

    def parse(self, response):
        seen = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(int(process.name)) == os.getsid(0):
                    seen.append((process / "cmdline").read_bytes().decode())
            except OSError:
                pass
        yield {"seen": seen, "told": [self.settings["MY_TOKEN"], self.password]}
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """What a node of ``crawl run`` saw, and where it wrote, without any umask."""
    directory = tmp_path_factory.mktemp("private")
    (directory / "settings.py").write_text(SETTINGS)
    (directory / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    site = RawSite({"/": PAGE})
    words = ["crawl", "run", "--spider", "private", "--nodes", "1"]
    words += ["-a", f"page={site.origin}/", "-a", "password=hush-hush"]
    chosen = {
        "MY_TOKEN": "hush-token",
        "FEEDS": json.dumps({"items.json": {"format": "json"}}),
        "FRONTIER_JOURNAL_DIR": directory / "journals" / "of" / "nodes",
        "FRONTIER_WACZ_DIR": directory / "waczs",
        "FRONTIER_WARC_DIR": directory / "warcs",
    }
    for name, value in chosen.items():
        words += ["-s", f"{name}={value}"]
    output_of(
        [sys.executable, "-m", "frontier", *words],
        cwd=directory,
        umask=0,
        env={**os.environ, "PYTHONPATH": str(directory)},
    )
    site.close()
    (item,) = json.loads((directory / "items.json").read_text())
    return directory, item


def test_secrets_of_a_node_are_in_no_process_arguments(ran):
    _, item = ran

    assert item["told"] == ["hush-token", "hush-hush"]
    assert item["seen"]  # the node itself, and its workers
    assert any("node-1" in words for words in item["seen"])
    assert not [words for words in item["seen"] if "hush" in words]


@pytest.mark.parametrize("name", ["warcs", "waczs", "journals", ".frontier/logs"])
def test_files_are_for_their_owner_and_group(ran, name):
    directory, _ = ran
    where = directory / name
    modes = {
        str(path.relative_to(directory)): stat.S_IMODE(path.stat().st_mode)
        for path in where.rglob("*")
    }
    made = {path: mode for path, mode in modes.items() if path.rpartition(".")[2] != ""}

    assert made
    assert stat.S_IMODE(where.stat().st_mode) & 0o027 == 0
    for path, mode in made.items():
        expected = 0o750 if (directory / path).is_dir() else 0o640
        assert mode == expected, path
    if name == "warcs":
        ends = {"warc.gz", "cdxj", "crawl.log"}
        assert all(any(path.endswith(end) for path in made) for end in ends)
