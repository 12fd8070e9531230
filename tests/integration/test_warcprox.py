"""What a node archives, against what warcprox records of the same bytes.

warcprox pins an older cryptography than Scrapy's TLS needs, so it lives in an
environment of its own.
"""

import contextlib
import http.client
import socket
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b32encode
from hashlib import sha1

import pytest
from conftest import DEADLINE, Cluster, until
from test_odd import BODIES, READ, stored
from test_wire import PAGES as WIRE_PAGES

from tests import foreign
from tests.rawsite import RawSite
from tests.topologies import free_ports
from tests.warc.samples import members, warc_headers

pytestmark = pytest.mark.compat
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
REFUSED = {"/folded-first", "/status-99", "/status-7", "/icy", "/crlf-first"}
"""Of these Python's `http.client`, and so warcprox, makes something else."""
ODD = {
    path: answer
    for path, answer in READ.items()
    if path not in REFUSED | set(BODIES) | {"/announced", "/blanks", "/http-2"}
}
PAGES = {path: WIRE_PAGES[path] for path in COMPARED} | ODD


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


def test_heads_and_bodies_are_those_that_warcprox_records(tmp_path):
    warcprox = foreign.python("warcprox==2.13.1") / "warcprox"
    site = RawSite(PAGES, address="127.0.0.2")  # warcprox refuses 127.0.0.1
    theirs_dir = tmp_path / "theirs"
    theirs_dir.mkdir()
    (port,) = free_ports(1)
    log = (tmp_path / "warcprox.log").open("wb")
    proxy = subprocess.Popen(
        [warcprox, "-p", str(port), "-d", theirs_dir, "-z", "-j", "/dev/null"],
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
            # What our client makes of it does not matter: the proxy has it by then.
            with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
                opener.open(site.url(path)).read()
        seeds = ",".join(map(site.url, PAGES))
        cluster.start(
            "n1",
            "-a",
            f"seeds={seeds}",
            ROBOTSTXT_OBEY="0",
            RETRY_TIMES="0",
            FRONTIER_DIGEST="sha1",
            FRONTIER_REVISIT_STATUSES="599",
        )
        assert cluster.wait("n1") == [0]
    finally:
        proxy.terminate()
        proxy.wait(DEADLINE)
        log.close()
        cluster.close()
        site.close()
    ours, theirs = responses(cluster.warc_dir), responses(theirs_dir)

    assert set(theirs) == set(PAGES)
    for path in ODD:
        (_, block), (said, made) = theirs[path], ours[path]
        end = b"\n\n" if path == "/bare-lf" else b"\r\n\r\n"
        head, _, body = block.partition(end)
        assert made == stored(head + end) + body, path
        digest = b32encode(sha1(body).digest()).decode()
        assert said["WARC-Payload-Digest"] == f"sha1:{digest}"
        assert theirs[path][0]["WARC-Payload-Digest"].upper() in {
            f"SHA1:{digest}",
            f"SHA1:{sha1(body).hexdigest().upper()}",
        }
    for path in COMPARED:
        _, block = theirs[path]
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
