"""A store that stops to let nodes in: they end with one line, and lose nothing."""

import contextlib

import pytest
import redis
from conftest import Cluster, after, until

from tests.harness import commands

SECRET = {"REDIS_PARAMS": '{"password": "secret"}'}


@pytest.mark.one_server("its password and its rights are changed")
@pytest.mark.parametrize("what", ["the password", "rights", "rights to a collection"])
def test_a_node_that_its_store_refuses_ends_with_one_line_and_loses_nothing(
    serve, cluster, own_server, tmp_path, what
):
    site = serve(urls=150, hosts=3, calendar_months=3, until=after(40))
    url = f"unix://{own_server.socket}"
    ours = {"FRONTIER_LEASE_TTL": "6", "FRONTIER_WARC_LOG": "True"}
    ours["FRONTIER_WARC_OUTLINKS"] = "True"
    if "collection" in what:
        ours["FRONTIER_COLLECTION_REDIS_URL"] = url
    else:
        cluster = Cluster(tmp_path, url=url)
    client = redis.Redis(unix_socket_path=str(own_server.socket))
    words = ("node-1", "-a", f"seeds={','.join(site.seeds)}")
    with contextlib.closing(cluster), contextlib.closing(client):
        cluster.start(*words, **ours)
        until(lambda: len(site.answered) >= 40, "some pages")
        if "rights" in what:
            client.execute_command("ACL SETUSER", "default", "-@scripting")
        else:
            client.config_set("requirepass", "secret")
            client.execute_command("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")
        site.go_on()
        assert cluster.wait() == [1]
        text = cluster.text_of("node-1")
        if "rights" in what:
            client.execute_command("ACL SETUSER", "default", "+@all")
        else:
            ours |= SECRET
        cluster.start(*words, **ours)
        cluster.finish()

    assert "Traceback" not in text
    assert text.count(" CRITICAL: the frontier of this node cannot go on: the ") == 1
    assert text.count(" ERROR: ") == 1  # that others fetch what was in flight
    assert site.requests().missing(site.expected) == set()
    files = commands.run("warc", "list", str(cluster.warc_dir))
    assert site.expected <= {*files.stdout.split()}
