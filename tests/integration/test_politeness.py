"""One delay per host for the whole cluster, whoever has the host.

Through joins, leaves, kills and frozen nodes `tests.chaos` judges it.
"""

from conftest import HELD, PARTITIONS, owned

from frontier.urls.partition import shards_of


def test_the_nodes_that_share_a_host_ask_it_together_as_often_as_one(serve, cluster):
    delay, nodes = 0.04, ("node-1", "node-2")
    shares = {}
    while not all(shares.get(node, 0) >= 2 for node in nodes):  # of the host's shards
        server = serve(urls=130, hosts=1, calendar_months=1, delay=HELD)
        places = shards_of(server.hosts[0], 8, PARTITIONS)
        shares = owned((place.partition for place in places), nodes)
    for node in nodes:
        cluster.start(
            node,
            "-a",
            f"seeds={server.seeds[0]}",
            DOWNLOAD_DELAY=delay,
            DOWNLOAD_DELAY_JITTER=0,
            FRONTIER_HOST_SHARDS=8,
        )
    cluster.share("site-1")
    server.delay = 0

    cluster.finish()
    log = server.requests()
    assert log.fetched().keys() == server.expected
    by_node = {"node-1": 0, "node-2": 0}
    for entry in log.entries:
        by_node[entry.node] += 1
    assert min(by_node.values()) > 5
    starts = sorted(entry.start for entry in log.entries)
    fifty = [later - first for first, later in zip(starts, starts[50:], strict=False)]
    assert min(fifty) > 0.8 * 50 * delay - server.late
