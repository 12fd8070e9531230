"""A store without memory: the crawl pauses, says so once, and goes on."""

from conftest import Cluster, until


def refused(servers):
    """How many commands there was no memory for."""
    found = [one.ask("INFO", "errorstats") for one in servers.holders]
    return sum(stats.get("errorstat_OOM", {"count": 0})["count"] for stats in found)


def test_a_full_store_pauses_the_crawl(serve, own_server, tmp_path):
    site = serve(urls=80, hosts=3, calendar_months=3, delay=0.02)
    nodes = Cluster(tmp_path, own_server)
    try:
        nodes.start("node-1", "-a", f"seeds={','.join(site.seeds)}")
        until(lambda: (log := site.requests()) and len(log.entries) > 20, "some pages")
        own_server.configure("maxmemory", 1)
        until(lambda: "no memory left" in nodes.text_of("node-1"), "the complaint")
        before = refused(own_server)
        until(lambda: refused(own_server) > before + 5, "more refusals")
        own_server.configure("maxmemory", 0)

        assert nodes.wait() == [0]
    finally:
        nodes.close()
    log = site.requests()
    assert log.missing(site.expected) == set()
    assert not log.repeated()
    text = nodes.text_of("node-1")
    assert text.count("the crawl pauses, and goes on by itself once") == 1
