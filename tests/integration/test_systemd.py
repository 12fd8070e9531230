"""Units of systemd: its own judge reads them, and each command in them is run."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import DEADLINE, ROOT, after, until

from tests.harness.project import scrapy_project
from tests.prometheus import program

UNITS = ROOT / "deploy" / "systemd"
BIN = "/srv/frontier/venv/bin"
SERVICES = sorted(UNITS.glob("*.service"))
SPIDER = """
import scrapy

class OneSpider(scrapy.Spider):
    name = "one"
    start_urls = {seeds!r}

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link, self.parse)
"""


def text_of(unit):
    return (UNITS / unit).read_text("utf-8")


@pytest.fixture
def line_of(tmp_path):
    """The command of a unit, with places of ours."""

    def line_of(unit, **environment):
        (line,) = re.findall(r"^ExecStart=(.+)$", text_of(unit), re.MULTILINE)
        given = {"%l": "host", "%i": "1", BIN: str(Path(sys.executable).parent)}
        given |= {"/var/lib/frontier": str(tmp_path / "state"), "8350": "0"}
        given |= {f"${{{name}}}": value for name, value in environment.items()}
        for name, value in given.items():
            line = line.replace(name, value)
        assert "${" not in line
        assert "%" not in line
        return shlex.split(line)

    return line_of


def test_systemd_finds_no_fault_in_the_units(tmp_path):
    analyze = program("systemd-analyze")
    for unit in [*SERVICES, *UNITS.glob("*.timer")]:
        text = unit.read_text("utf-8").replace(BIN, str(Path(sys.executable).parent))
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        [analyze, "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
    )

    ours = [line for line in done.stderr.splitlines() if "frontier-" in line]
    assert (done.returncode, ours) == (0, []), done.stderr
    assert len(SERVICES) == 3


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_service_units_limit_privileges_and_restart_on_failure(unit):
    text = unit.read_text("utf-8")

    for line in ("User=frontier", "NoNewPrivileges=yes", "ProtectSystem=strict"):
        assert f"\n{line}\n" in text
    if "Type=oneshot" not in text:
        assert "\nKillSignal=SIGTERM\n" in text
        assert "\nRestart=on-failure\n" in text
        assert re.search("\nRestartPreventExitStatus=2( 7)?\n", text)


@pytest.mark.chaos  # `make chaos` runs it: it takes six processes
def test_a_node_of_systemd_crawls_and_gives_back_what_it_has_when_it_is_stopped(
    serve, tmp_path, line_of, servers, unique
):
    server = serve(urls=150, hosts=4, until=after(10))
    spider = SPIDER.format(seeds=server.seeds)
    scrapy_project(tmp_path, spider, f"FRONTIER_NAMESPACE = {unique!r}\n")
    (tmp_path / "state").mkdir()
    url = servers("any").url
    env = {**os.environ, "REDIS_URL": url, "FRONTIER_NAMESPACE": unique}
    log = tmp_path / "log"

    def start(unit, **environment):
        with log.open("ab") as output:
            return subprocess.Popen(
                line_of(unit, **environment),
                cwd=tmp_path,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    node = start("frontier-node@.service", SPIDER="one")
    until(lambda: len(server.answered) >= 10, "pages")
    dashboard = start("frontier-dashboard.service")
    until(lambda: "the status page is at" in log.read_text(), "the page")
    assert start("frontier-collection-check.service").wait(DEADLINE) == 0
    for process in (dashboard, node):
        process.send_signal(signal.SIGTERM)
    server.go_on()

    codes = [process.wait(DEADLINE) for process in (dashboard, node)]
    assert codes == [0, 0], log.read_text()[-3000:]
    assert list((tmp_path / "state" / "warcs").glob("*.warc.gz"))
