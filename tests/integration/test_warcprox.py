"""What a node archives, against what warcprox records of the same bytes.

warcprox pins an older cryptography than Scrapy's TLS needs, so it lives in an
environment of its own: ``WARCPROX=/path/to/bin/warcprox`` names it.
"""

import contextlib
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from conftest import Cluster, until
from test_wire import PAGES as WIRE_PAGES

from tests.archive.samples import members, warc_headers
from tests.rawsite import RawSite

WARCPROX = os.environ.get("WARCPROX", "")
COMPARED = (
    "/odd",
    "/chunked",
    "/old",
    "/gzip",
    "/cut-gzip",
    "/error",
    "/moved",
    "/image",
)
PAGES = {path: WIRE_PAGES[path] for path in COMPARED}


def responses(directory):
    """Path to (WARC headers, block) of each response."""
    found = {}
    for path in directory.glob("*.warc.gz"):
        for _, _, content in members(path.read_bytes()):
            headers = warc_headers(content)
            if headers["WARC-Type"] in {"response", "revisit"}:
                url = headers["WARC-Target-URI"].strip("<>")
                block = content.partition(b"\r\n\r\n")[2]
                block = block[: int(headers["Content-Length"])]
                found["/" + url.split("/", 3)[3]] = headers, block
    return found


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.mark.skipif(not WARCPROX, reason="WARCPROX names no warcprox")
def test_heads_and_bodies_are_those_that_warcprox_records(tmp_path):
    site = RawSite(PAGES, address="127.0.0.2")  # warcprox refuses 127.0.0.1
    theirs_dir = tmp_path / "theirs"
    theirs_dir.mkdir()
    port = free_port()
    log = (tmp_path / "warcprox.log").open("wb")
    proxy = subprocess.Popen(
        [WARCPROX, "-p", str(port), "-d", theirs_dir, "-z", "-j", "/dev/null"],
        stdout=log,
        stderr=log,
        cwd=tmp_path,
    )
    cluster = Cluster(tmp_path)
    try:
        until(lambda: listens(port), "warcprox's port")
        handler = urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{port}"})
        opener = urllib.request.build_opener(handler, Unredirected)
        for path in PAGES:
            with contextlib.suppress(urllib.error.HTTPError):
                opener.open(site.url(path)).read()
        seeds = ",".join(map(site.url, PAGES))
        cluster.start("n1", "-a", f"seeds={seeds}", ROBOTSTXT_OBEY="0", RETRY_TIMES="0")
        assert cluster.wait("n1") == [0]
    finally:
        proxy.terminate()
        proxy.wait(30)
        log.close()
        cluster.close()
        site.close()
    ours, theirs = responses(cluster.warc_dir), responses(theirs_dir)

    assert set(theirs) == set(PAGES)
    for path, (_, block) in theirs.items():
        head, _, body = block.partition(b"\r\n\r\n")
        if path == "/chunked":  # theirs keeps the chunks, ours says that they were
            head = head.replace(b"Transfer", b"X-Archive-Orig-Transfer")
            body = b"abcde"
        if path == "/old":  # bare line feeds: ours are those of HTTP
            head, _, body = block.partition(b"\n\n")
            head = head.replace(b"\n", b"\r\n")
        assert ours[path][1].split(b"\r\n") == [*head.split(b"\r\n"), b"", body]
        assert ours[path][0]["WARC-IP-Address"] == theirs[path][0]["WARC-IP-Address"]


class Unredirected(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args):
        return None


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    time.sleep(0.05)
    return False
