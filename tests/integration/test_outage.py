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
def test_a_slow_a_silent_and_a_full_store_pause_the_crawl(serve, own_server, tmp_path):
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
        client.config_set("maxmemory", 1)
        says("no memory left")
        refused = client.info("errorstats").get("errorstat_OOM", {"count": 0})["count"]
        until(
            lambda: client.info("errorstats")["errorstat_OOM"]["count"] > refused + 5,
            "more refusals",
        )
        client.config_set("maxmemory", 0)
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
    assert text.count("the crawl pauses, and goes on by itself once") == 1
    assert text.count("waiting for it") == text.count("answers again after")
    assert SECRET not in text
