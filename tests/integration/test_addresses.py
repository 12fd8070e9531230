"""What is connected to, in a network where everything inside answers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import network
import pytest

from tests.foreign import lacks
from tests.harness.commands import output_of

HERE = Path(__file__).parent
INSIDE = {a for each in network.INSIDE.values() for a in each} - {"127.0.0.1"}
UNSHARE = ("unshare", "-rnm", "--propagation", "private")


class Result:
    def __init__(self, directory, name):
        done = json.loads((directory / "connections.json").read_text())[name]
        assert done["status"] == 0
        self.connections = done["connections"]
        found = json.loads((directory / f"{name}.json").read_text())
        self.fetched, self.stats = set(found["fetched"]), found["stats"]
        self.log = (directory / f"{name}.log").read_text()
        logs = (directory / name / "w").glob("*.crawl.log")
        self.lines = [
            line.split() for each in logs for line in each.read_text().splitlines()
        ]

    def refused(self, kind):
        return int(self.stats.get(f"frontier/refused/{kind}", 0))

    def hops_to(self, kind):
        return {to for path, to in network.hops().items() if f"/{kind}/" in path}


@pytest.fixture(scope="module")
def crawls(tmp_path_factory):
    """The crawls of `network.py`, done in a network namespace."""
    may = shutil.which("unshare") and shutil.which("ip")
    if not may or subprocess.run([*UNSHARE, "true"], check=False).returncode:
        lacks("network namespace")
    directory = tmp_path_factory.mktemp("network")
    output_of(
        [*UNSHARE, sys.executable, str(HERE / "network.py"), str(directory)],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        timeout=600,
    )
    return lambda name: Result(directory, name)


def test_public_seeds_lead_to_public_addresses_alone_whatever_spells_others(crawls):
    crawl = crawls("public")

    assert not crawl.connections.keys() & {*INSIDE, "127.0.0.1"}
    assert crawl.connections.keys() == {network.PUBLIC, network.OTHER}
    assert {"http://other.example/page", "http://public.example/plain"} < crawl.fetched
    for kind in ("loopback", "private", "metadata"):
        assert crawl.refused(kind) >= len(crawl.hops_to(kind))
    assert crawl.refused("link_local") == 1
    assert crawl.stats["finish_reason"] == "finished"


def test_refused_addresses_are_in_the_crawl_log(crawls):
    crawl = crawls("public")
    blocked = {line[3]: line for line in crawl.lines if line[1] == "-5001"}

    assert crawl.hops_to("metadata") <= blocked.keys() | {"http://meta.example/inside"}
    line = blocked["http://2130706433/inside"]
    assert line[4:6] == ["LR", "http://public.example/hop/loopback/4"]
    assert line[-1] == "address:loopback"


def test_a_name_that_leads_elsewhere_the_next_time_is_looked_at_again(crawls):
    crawl = crawls("public")

    assert f"http://{network.REBOUND}/first" in crawl.fetched
    assert f"http://{network.REBOUND}/second" not in crawl.fetched
    assert "169.254.169.254" not in crawl.connections


def test_seeds_inside_lead_to_their_own_kind_of_address_alone(crawls):
    crawl = crawls("private")

    assert crawl.connections.keys() == {"10.0.0.5"}
    assert "http://10.0.0.5/inside" in crawl.fetched
    assert crawl.refused("public")


def test_allowed_addresses_are_connected_to_without_an_archive_too(crawls):
    crawl = crawls("given")

    assert "http://169.254.169.254/inside" in crawl.fetched
    assert "http://meta.example/inside" in crawl.fetched
    assert not crawl.connections.keys() & {"127.0.0.1", "10.0.0.5", "169.254.7.7"}


def test_a_proxy_may_be_anywhere_and_is_asked_for_no_address_inside(crawls):
    crawl = crawls("proxied")

    assert crawl.connections.keys() == {"proxy"}
    assert "http://other.example/page" in crawl.fetched
    asked = {text.split(" ")[1] for text in crawl.connections["proxy"]}
    for url in asked:
        host = url.removeprefix("http://").partition("/")[0]
        assert host.endswith(".example"), url


def test_a_handler_that_is_not_ours_is_given_no_name_that_leads_inside(crawls):
    crawl = crawls("foreign")

    assert crawl.connections.keys() == {network.PUBLIC, network.OTHER}
    assert "http://other.example/page" in crawl.fetched


def test_address_reported_by_a_foreign_handler_is_checked(crawls):
    crawl = crawls("service")

    proxied = "http://meta.example/inside"
    assert crawl.fetched == {"http://public.example/plain", proxied}
    assert crawl.refused("metadata") == 1
    assert crawl.log.count("Service sends http requests") == 1
