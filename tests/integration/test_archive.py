"""A file that cannot be closed; what nodes write `test_wacz` reads back."""

import signal

from conftest import until


def test_a_node_that_cannot_close_its_file_exits_with_1(serve, cluster):
    server = serve(urls=100, hosts=1, calendar_months=0)
    seeds = f"seeds={server.seeds[0]}"
    cluster.start("node-1", "-a", seeds, FRONTIER_KEEP_ALIVE="True")
    until(lambda: not server.expected - {*server.requests().fetched()}, "all pages")
    until(lambda: not cluster.reserved("site-1"), "that all are stored")
    cluster.warc_dir.rename(cluster.directory / "elsewhere")
    cluster.nodes["node-1"].send_signal(signal.SIGTERM)

    assert cluster.wait() == [1]
    assert "a WARC file cannot be closed" in cluster.text_of("node-1")
