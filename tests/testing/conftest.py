import http.client

import pytest

from frontier.testing.server import SiteServer
from frontier.testing.site import Site


@pytest.fixture(scope="module")
def server():
    with SiteServer(Site(slow_seconds=0.0)) as server:
        yield server


@pytest.fixture
def get(server):
    """Ask one of the server's hosts for a target, without following redirects."""
    connections = []

    def get(target, host=0, method="GET", body=None, headers=None):
        connection = http.client.HTTPConnection(server.hosts[host], timeout=120)
        connections.append(connection)
        connection.request(method, target, body, headers or {})
        response = connection.getresponse()
        response.payload = response.read()
        return response

    yield get
    for connection in connections:
        connection.close()
