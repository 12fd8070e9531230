import pytest

from frontier.testing.server import SiteServer
from frontier.testing.site import Site


@pytest.fixture(scope="module")
def server():
    with SiteServer(Site(slow_seconds=0.0)) as server:
        yield server
