"""A store that is slow, gone or full: nodes wait, say so once, and go on."""

import json
import time

import pytest
import redis
from conftest import Cluster, after, until

from tests.chaos.wire import Wire

SECRET = "not-for-any-log"
NEVER = 1e6
"""Seconds: what is on its way arrives when nobody waits for it any more."""


@pytest.mark.one_server("a wire leads to one")
def test_a_slow_and_a_silent_store_pause_the_crawl(serve, own_server, tmp_path):
    site = serve(urls=150, hosts=3, calendar_months=3, delay=0.15, until=after(15))
    client = redis.Redis(unix_socket_path=str(own_server.socket))
    allowed = ["on", f">{SECRET}", "~*", "&*", "+@all"]
    client.execute_command("ACL", "SETUSER", "crawler", *allowed)
    wire = Wire(own_server.socket)
    wire.start()
    nodes = Cluster(tmp_path, url=wire.url.replace("//", f"//crawler:{SECRET}@"))

    def pages():
        return len(site.answered)

    def silent():
        return nodes.text_of("node-1").count("does not answer")

    def says(text):
        return until(lambda: text in nodes.text_of("node-1"), text)

    try:
        nodes.start(
            "node-1",
            "-a",
            f"seeds={','.join(site.seeds)}",
            REDIS_PARAMS=json.dumps({"socket_timeout": 3, "client_name": "node-1"}),
            FRONTIER_LEASE_TTL="2",
            CONCURRENT_REQUESTS="4",
        )
        until(lambda: pages() >= 15, "some pages")
        wire.delay = 0.25  # 500 ms there and back
        site.until = after(40)
        until(lambda: pages() >= 40, "more pages")
        silences = silent()
        wire.delay = NEVER
        site.go_on()
        # It is said when there was no answer for longer than a lease lasts.
        until(lambda: silent() > silences, "the complaint")
        until(lambda: not any(site.waiting.values()), "the answers to what was sent")
        sent = pages()
        time.sleep(1.0)
        assert pages() == sent, "a node without a lease sends nothing"
        wire.delay = 0.0
        says("answers again after")
        until(lambda: pages() > sent, "pages again")
        site.delay = 0

        assert nodes.wait() == [0]
    finally:
        nodes.close()
        wire.stop()
        client.close()
    log = site.requests()
    assert log.missing(site.expected) == set()
    assert not log.repeated()
    text = nodes.text_of("node-1")
    assert text.count("waiting for it") == text.count("answers again after")
    assert SECRET not in text


@pytest.mark.one_server("its memory is full")
def test_a_full_store_drops_no_node_and_nothing_is_started(serve, own_server, tmp_path):
    site = serve(urls=150, hosts=3, calendar_months=3, delay=0.1, until=after(20))
    client = redis.Redis(unix_socket_path=str(own_server.socket))
    nodes = Cluster(tmp_path, url=f"unix://{own_server.socket}")

    def told():
        return json.loads(nodes.ask("crawl", "status", "--json").stdout)

    def beats():
        return {node["node_id"]: node["state"] for node in told()["nodes"]}

    try:
        for node_id in ("node-1", "node-2"):
            nodes.start(
                node_id,
                "-a",
                f"seeds={','.join(site.seeds)}",
                FRONTIER_LEASE_TTL="2",
                CONCURRENT_REQUESTS="4",
            )
        until(lambda: len(site.answered) >= 20, "some pages")
        client.config_set("maxmemory", client.info("memory")["used_memory"])
        site.go_on()
        line = "nothing more is started. The crawl goes on by itself once"
        for node_id in nodes.nodes:
            until(lambda n=node_id: line in nodes.text_of(n), "the line")
        until(lambda: not any(site.waiting.values()), "the answers to what was sent")
        sent = len(site.answered)
        began = client.time()[0]
        until(lambda: client.time()[0] > began + 4, "twice a lease")
        assert len(site.answered) == sent
        assert beats() == {"node-1": "live", "node-2": "live"}
        assert "of its memory in use" in nodes.ask("crawl", "status").stdout
        client.config_set("maxmemory", 0)
        site.delay = 0

        assert nodes.wait() == [0, 0]
    finally:
        nodes.close()
        client.close()
    log = site.requests()
    assert log.missing(site.expected) == set()
    assert not log.repeated()
    for node_id in nodes.nodes:
        assert "was dropped" not in nodes.text_of(node_id)
        assert nodes.text_of(node_id).count("nothing more is started") == 1
