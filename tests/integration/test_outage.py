"""A store without memory: the crawl pauses, says so once, and goes on."""

import redis
from conftest import Cluster, until


def test_a_full_store_pauses_the_crawl(serve, own_server, tmp_path):
    site = serve(urls=80, hosts=3, calendar_months=3, delay=0.02)
    nodes = Cluster(tmp_path, own_server)
    client = redis.Redis(unix_socket_path=str(own_server.socket))
    try:
        nodes.start("node-1", "-a", f"seeds={','.join(site.seeds)}")
        until(lambda: (log := site.requests()) and len(log.entries) > 20, "some pages")
        client.config_set("maxmemory", 1)
        until(lambda: "no memory left" in nodes.text_of("node-1"), "the complaint")
        refused = client.info("errorstats").get("errorstat_OOM", {"count": 0})["count"]
        until(
            lambda: client.info("errorstats")["errorstat_OOM"]["count"] > refused + 5,
            "more refusals",
        )
        client.config_set("maxmemory", 0)

        assert nodes.wait() == [0]
    finally:
        nodes.close()
        client.close()
    log = site.requests()
    assert log.missing(site.expected) == set()
    assert not log.repeated()
    text = nodes.text_of("node-1")
    assert text.count("the crawl pauses, and goes on by itself once") == 1
