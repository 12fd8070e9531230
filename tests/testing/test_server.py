import http.client
import socket
import time
from urllib.request import urlopen

import pytest

from frontier.errors import ConfigurationError
from frontier.testing.oracle import RequestLog, expected_urls
from frontier.testing.server import SiteServer
from frontier.testing.site import Site
from tests.topologies import free_ports, until

SMALL = {"urls": 60, "hosts": 2, "calendar_months": 0, "slow_seconds": 0.0}


def leave(host, data):
    """Send *data* and close the connection."""
    address, port = host.split(":")
    with socket.create_connection((address, int(port)), timeout=120) as sock:
        sock.sendall(data)


def test_every_expected_url_is_served_as_the_site_says(server):
    hosts = {host: number for number, host in enumerate(server.hosts)}
    connections = {h: http.client.HTTPConnection(h, timeout=120) for h in server.hosts}
    expected = expected_urls(server.site)

    assert len(expected) == 400
    for url in expected:
        host, slash, rest = url.removeprefix("http://").partition("/")
        connections[host].request("GET", slash + rest)
        response = connections[host].getresponse()
        resource = server.site.resource(hosts[host], slash + rest)
        assert (response.status, response.read()) == (resource.status, resource.body)
        sent = [
            (name.encode("latin-1"), v.encode("latin-1"))
            for name, v in response.getheaders()
        ]
        assert {*resource.headers} <= {*sent}
    for connection in connections.values():
        connection.close()


def test_a_form_echoes_its_body_as_html(server):
    with urlopen(f"{server.seeds[0]}form", b"q=<b>\xc3\xa9\xff") as response:
        assert response.headers["Content-Type"].startswith("text/html")
        assert "<pre>q=&lt;b&gt;é\ufffd</pre>" in response.read().decode()


def test_slow_page_blocks_no_other_request(tmp_path):
    log = tmp_path / "requests.jsonl"
    with SiteServer(Site(**{**SMALL, "slow_seconds": 3600.0}), log=log) as server:
        connection = http.client.HTTPConnection(server.hosts[0], timeout=120)
        connection.request("GET", "/slow")
        until(lambda: server.waiting[None])
        urlopen(server.seeds[0], timeout=120).close()
        until(lambda: server.waiting[None] == 1)  # the other is done
    connection.close()
    first, last = RequestLog.read(log).entries
    assert (first.url, first.aborted) == (server.seeds[0], False)
    assert (last.url, last.aborted) == (f"{server.seeds[0]}slow", True)


def test_requests_are_logged(tmp_path):
    log = tmp_path / "requests.jsonl"
    before = time.time()
    with SiteServer(Site(**SMALL), log=log) as server:
        host = server.hosts[1]
        connection = http.client.HTTPConnection(host, timeout=120)
        headers = {"X-Frontier-Node": "a", "User-Agent": "test", "Host": "elsewhere"}
        connection.request("GET", "/about?x=1#no", headers=headers)
        connection.getresponse().read()
        connection.request("HEAD", "/about")
        connection.getresponse().read()
        connection.request("GET", "/chunked")
        size = len(connection.getresponse().read())
        connection.close()
    one, two, three = RequestLog.read(log).entries

    assert (one.host, one.node, one.ua) == (host, "a", "test")
    assert one.url.startswith(f"http://{host}/about?x=1")
    assert (one.method, one.status, one.aborted) == ("GET", 404, False)
    assert before - 0.1 <= one.start <= one.end <= two.start <= time.time() + 0.1
    assert (two.method, two.status, two.bytes, two.node) == ("HEAD", 200, 0, None)
    assert three.bytes == size


def test_a_client_that_leaves_is_logged_as_aborted(tmp_path):
    log = tmp_path / "requests.jsonl"
    with SiteServer(Site(**SMALL), log=log, delay=3600) as server:
        leave(server.hosts[0], b"GET /about HTTP/1.1\r\n\r\n")
        until(lambda: log.stat().st_size)
    (entry,) = RequestLog.read(log).entries

    assert entry.aborted
    assert entry.bytes == 0
    assert entry.end - entry.start < 3600


def test_server_logs_requests_cut_by_its_stop(tmp_path):
    log = tmp_path / "requests.jsonl"
    server = SiteServer(Site(**SMALL), log=log, host_delays={0: 3600})
    server.start()
    connection = http.client.HTTPConnection(server.hosts[0], timeout=120)
    connection.request("GET", "/about")
    urlopen(server.seeds[1], timeout=120).close()  # the other host is not delayed
    server.stop()
    with pytest.raises(ConnectionError):
        connection.getresponse()
    connection.close()
    log = RequestLog.read(log)

    assert sum(log.fetched().values()) == 1
    assert log.fetched().keys() == {server.seeds[1]}
    assert log.aborted().keys() <= {server.seeds[0] + "about"}


def test_server_reuses_the_port_of_the_previous_one():
    (port,) = free_ports(1)
    with SiteServer(Site(**SMALL), port=port) as one:
        urlopen(one.seeds[0], timeout=120).close()
        hosts = one.hosts
    with SiteServer(Site(**SMALL), port=port) as two:
        assert two.hosts[0] == hosts[0]
        with pytest.raises(ConfigurationError):
            SiteServer(Site(**SMALL), port=port).start()
