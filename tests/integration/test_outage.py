"""A store that is slow, gone or full: nodes wait, say so once, and go on."""

import pytest
import redis
from conftest import Cluster, after, until


@pytest.mark.one_server("its memory is full")
def test_a_full_store_drops_no_node_and_nothing_is_started(serve, own_server, tmp_path):
    site = serve(urls=150, hosts=3, calendar_months=3, delay=0.1, until=after(20))
    client = redis.Redis(unix_socket_path=str(own_server.socket))
    nodes = Cluster(tmp_path, url=f"unix://{own_server.socket}")

    def told():
        return nodes.shown("crawl", "status")

    def beats():
        return {node["node_id"]: node["state"] for node in told()["nodes"]}

    try:
        for node_id in ("node-1", "node-2"):
            nodes.start(
                node_id,
                "-a",
                f"seeds={','.join(site.seeds)}",
                FRONTIER_LEASE_TTL="8",
                CONCURRENT_REQUESTS="4",
            )
        until(lambda: len(site.answered) >= 20, "some pages")
        # Beside which the buffers of connections, which come and go, are nothing.
        client.setrange("other", 64 * 1024 * 1024, b"x")
        client.config_set("maxmemory", client.info("memory")["used_memory"])
        site.go_on()
        line = "nothing more is started. The crawl goes on by itself once"
        for node_id in nodes.nodes:
            until(lambda n=node_id: line in nodes.text_of(n), "the line")
        sent = len(site.answered)
        began = client.time()[0]
        until(lambda: client.time()[0] > began + 16, "twice a lease")
        # What was under way was four requests of each node, and robots.txt for each.
        assert len(site.answered) <= sent + 2 * 2 * 4
        assert beats() == {"node-1": "live", "node-2": "live"}
        assert "of its memory in use" in nodes.ask("crawl", "status").stdout
        client.config_set("maxmemory", 0)
        site.delay = 0

        nodes.finish()
    finally:
        nodes.close()
        client.close()
    log = site.requests()
    assert log.missing(site.expected) == set()
    assert not log.repeated()
    for node_id in nodes.nodes:
        assert "was dropped" not in nodes.text_of(node_id)
        assert nodes.text_of(node_id).count("nothing more is started") == 1
