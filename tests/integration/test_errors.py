"""Wrong settings, seeds and servers: one message each, and the rest goes on."""

import contextlib
import re
import socket
import subprocess
import threading

import pytest
from conftest import HELD, after, until

from frontier.status.snapshot import snapshot
from frontier.store.client import Call
from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, page


def test_unusable_warc_dir_is_one_message_and_a_failed_start(cluster):
    given = ("-a", "seeds=http://127.0.0.1:1/")
    cluster.start("node-1", *given, FRONTIER_WARC_DIR="/proc/warcs")

    assert cluster.wait() == [1]
    text = cluster.text_of("node-1")
    assert text.count(" CRITICAL: ") == text.count("FRONTIER_WARC_DIR = '/proc/w") == 1


@pytest.mark.one_server("it is the embedded one that nodes start again")
def test_the_store_may_die_and_come_back(serve, cluster):
    server = serve(urls=140, hosts=3, calendar_months=12, delay=HELD, until=after(40))
    seeds = ",".join(server.seeds)
    cluster.start("node-1", "-a", f"seeds={seeds}")
    cluster.start("node-2", "-a", f"seeds={seeds}")
    cluster.join()  # one that is still starting would rightly give up
    server.delay = 0.03
    until(lambda: len(server.answered) >= 40, "some pages")
    (info,) = cluster.store.run([Call.command("INFO", "server")])
    subprocess.run(["kill", "-9", str(info["process_id"])], check=True)
    # A node that had nothing to ask it only finds another server.
    said = re.compile("does not answer|may have lost its last writes")
    for node in cluster.nodes:
        until(lambda n=node: said.search(cluster.text_of(n)), "a complaint")
    server.go_on()

    cluster.finish()
    log = server.requests()
    assert not log.missing(server.expected)
    texts = [cluster.text_of(node) for node in cluster.nodes]
    assert any("answers again" in text for text in texts)
    assert all("Spider closed (finished)" in text for text in texts)


def hung(connection):
    """Keep *connection*, and say nothing, until the other side has enough of it."""
    while connection.recv(4096):
        pass


def speak_plainly(listener):
    """Say nothing of TLS to whoever connects to *listener*, until it is closed."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 this is no TLS\r\n" * 20)
                connection.recv(4096)


RAISING = """
import scrapy


class RaisingSpider(scrapy.Spider):
    name = "raising"

    async def start(self):
        yield {"url": None}
        yield scrapy.Request(self.url)

    def parse(self, response):
        yield {"url": response.url}
        yield scrapy.Request("http://127.0.0.1:9/", errback=self.failed)
        raise KeyError("callback")

    def failed(self, failure):
        raise KeyError("errback")


class Pipeline:
    def process_item(self, item):
        raise KeyError("pipeline")
"""


def test_errors_of_the_projects_code_are_in_the_report(cluster, tmp_path):
    conf = 'ITEM_PIPELINES = {"own.Pipeline": 100}\nRETRY_ENABLED = False\n'
    project = scrapy_project(tmp_path / "project", RAISING, conf)
    site = RawSite({"/": page()})
    url = f"url={site.url('/')}"
    with contextlib.closing(site):
        done = cluster.crawl("--spider", "raising", "-a", url, cwd=project)

    said = done.stdout
    assert "4 in callbacks and pipelines" in said, said + done.stderr
    of_page, of_failure = site.url("").split("/")[2], "127.0.0.1:9"
    (named,) = re.findall("Errors, by host +(.+?) *\n", said)
    assert {*named.split(", ")} == {f"{of_page} 2", f"{of_failure} 2"}


def test_errors_are_counted_by_kind_and_by_host(cluster):
    site = RawSite({}, listener=socket.create_server(("0.0.0.0", 0)))
    with socket.create_server(("127.0.0.9", 0)) as bound:
        nobody = f"127.0.0.9:{bound.getsockname()[1]}"
    site.pages |= {
        "/http_429": b"HTTP/1.1 429 Busy\r\nContent-Length: 0\r\n\r\n",
        "/http_5xx": b"HTTP/1.1 503 Down\r\nContent-Length: 0\r\n\r\n",
        "/reset": lambda connection: connection.close(),
        "/timeout": hung,
        "/fine": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    }
    hosts = {
        path[1:]: f"127.0.0.{n}:{site.port}" for n, path in enumerate(site.pages, 1)
    }
    urls = [f"http://{host}/{path}" for path, host in hosts.items()]
    plain = socket.create_server(("127.0.0.8", 0))
    threading.Thread(target=speak_plainly, args=(plain,), daemon=True).start()
    tls = f"127.0.0.8:{plain.getsockname()[1]}"
    urls += [f"http://{nobody}/", "http://no.invalid/", f"https://{tls}/"]
    with contextlib.closing(site), plain:
        cluster.start(
            "node-1",
            "-a",
            f"seeds={','.join(urls)}",
            ROBOTSTXT_OBEY="False",
            RETRY_ENABLED="False",
            DOWNLOAD_TIMEOUT="3",
            FRONTIER_UPLINK_PROBE="0",  # else so many failing hosts look like one
        )
        cluster.finish()

    totals = snapshot(cluster.store, "frontier", "site-1").totals
    fine = hosts.pop("fine")
    hosts |= {"refused": nobody, "dns": "no.invalid", "tls": tls}
    assert totals.host_errors == {host: {kind: 1} for kind, host in hosts.items()}
    assert totals.error_kinds == {**dict.fromkeys(hosts, 1), "code": 0, "other": 0}
    assert totals.errors == len(hosts) == 7
    assert next(iter(totals.host_seconds)) == hosts["timeout"]
    assert totals.host_seconds.keys() == {fine, *hosts.values()}
    assert totals.host_seconds[fine].requests == 1
    assert totals.cpu_seconds > 0
