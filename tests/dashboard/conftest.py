"""A status page that is really served, on a port of its own."""

import asyncio
import contextlib
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from frontier.cluster.crawls import enter
from frontier.cluster.shared_settings import crawl_settings
from frontier.dashboard.app import Source
from frontier.dashboard.server import listen, serve
from frontier.settings.config import Config

DEADLINE = 120.0


class Page:
    """A status page on a thread of its own, and what it answers."""

    def __init__(self, source, token=""):
        self._sock = listen("127.0.0.1", 0, token)
        self.port = self._sock.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = None
        self._has_begun = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(serve(self._sock, source, token, self._begun))
        )
        self._thread.start()
        assert self._has_begun.wait(DEADLINE)

    def _begun(self, server):
        self._server = server
        self._has_begun.set()

    def ask(self, path="/", method="GET", body=None, **headers):
        """Its answer, and the text of that."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        with contextlib.closing(asking):
            asking.request(method, path, body, given)
            answer = asking.getresponse()
            return answer, answer.read().decode()

    def events(self, path):
        """Lines of events, for as long as they are wanted."""
        asking = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        with contextlib.closing(asking):
            asking.request("GET", path)
            answer = asking.getresponse()
            assert answer.getheader("content-type").startswith("text/event-stream")
            while line := answer.readline():
                yield line.decode().rstrip("\n")

    def close(self):
        self._server.should_exit = True
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


def begin_crawl(store, namespace, spider):
    """Make an open crawl, in a thread: Playwright's event loop may run in this one."""

    async def run(calls):
        return store.run(calls)

    def make():
        return asyncio.run(enter(run, namespace, spider, "", crawl_settings(Config())))

    with ThreadPoolExecutor() as threads:
        return threads.submit(make).result()


@pytest.fixture
def server(servers):
    """One kind: what is read is tested with each in `tests/status`."""
    return servers("any")


@pytest.fixture
def namespace(unique):
    return f"page-{unique}"


@pytest.fixture
def crawl_of(blocking, namespace):
    """Make an open crawl of a spider, and return its keys."""
    store = blocking()

    def make(spider="site"):
        return begin_crawl(store, namespace, spider)

    return make


@pytest.fixture
def page(blocking, namespace):
    """Serve the crawls of the test's namespace."""
    made = []

    def serve_page(token="", store=None):
        store = store or blocking()
        made.append(Page(Source(lambda: store, namespace, store.where), token))
        return made[-1]

    yield serve_page
    for one in made:
        one.close()
