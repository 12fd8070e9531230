"""What Browsertrix's own indexers make of our files.

Its crawler writes CDXJ with warcio.js, which npm has. What fills its index of payloads,
``indexer``, is in no registry: the test takes a checkout of
github.com/webrecorder/browsertrix-crawler that ``BROWSERTRIX_SOURCE`` names, and builds
of it what it needs.
"""

import contextlib
import json

import pytest

from frontier.cdx.lines import parse
from frontier.wacz.create import create, warc_files
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.file_rotation import WarcConfig
from tests import foreign
from tests.collection.samples import Index, make_manifest, resource
from tests.conftest import Server
from tests.harness.commands import output_of
from tests.warc.samples import an_exchange, written

pytestmark = pytest.mark.compat
FACTS = ("url", "mime", "status", "digest", "offset", "length", "filename")


def test_warcio_js_indexes_a_file_as_we_do(tmp_path):
    """With a form, a redirect, a revisit and how each was found."""
    config = WarcConfig(tmp_path, "c", "n", metadata=True, listing=Listing())
    form = b"POST /9 HTTP/1.1\r\nHost: example.com\r\n"
    form += b"Content-Type: application/x-www-form-urlencoded\r\n\r\n"
    moved = b"HTTP/1.1 302 Go\r\nLocation: /0\r\nContent-Length: 0\r\n\r\n"
    given = [
        an_exchange(0),
        an_exchange(1),  # a revisit of it
        an_exchange(2, b"", response_head=moved, status=302),
        an_exchange(9, b"told", request_head=form, request_body=b"a=1&b=2"),
    ]
    path = written(config, given, {})
    tool = foreign.npm() / "node_modules" / "warcio" / "dist" / "cli.js"

    said = output_of(["node", tool, "cdx-index", path])

    theirs = sorted(line.split(" ", 2) for line in said.splitlines())
    ours = [parse(line) for line in beside_of(path).read_bytes().splitlines()]
    assert [words[:2] for words in theirs] == [
        [line.key, line.timestamp] for line in ours
    ]
    assert len(ours) == 4
    for (*_, facts), line in zip(theirs, ours, strict=True):
        said = json.loads(facts)
        told = {name: str(said.get(name, "")) for name in FACTS}
        ours_of = {name: str(getattr(line, name)) for name in FACTS}
        if line.kind == "revisit":
            ours_of["mime"] = "warc/revisit"
        for each in (told, ours_of):  # it leaves the algorithm out where it computes
            each["digest"] = each["digest"].removeprefix("sha256:")
            each["mime"] = each["mime"].replace("unk", "")  # none, as pywb has it
        assert told == ours_of


def test_its_indexer_fills_an_index_as_our_import_does(tmp_path, write_warc, binary):
    run = foreign.browsertrix(tmp_path)
    resources = []
    for crawl, bodies in {
        "a": [b"one", b"two" * 900],
        "b": [b"two" * 900, b"x"],
    }.items():
        out = tmp_path / f"{crawl}.wacz"
        create(out, warc_files([write_warc(crawl, bodies)], crawl_id=crawl))
        resources.append(resource(out, crawl))
    manifest = make_manifest(tmp_path / "all.json", resources)
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(2):
            server = Server(binary("valkey-9"))
            stack.callback(server.remove)
            server.start()
            index = Index(server.url, "")
            stack.callback(index.store.close)
            found.append((server, index))
        (their_server, theirs), (_, ours) = found

        run("--redisDedupeUrl", their_server.socket, "--sourceUrl", manifest.name)
        done = ours.put(manifest, compat=True)

        assert (done.originals, done.revisits) == (3, 1)
        volatile = [f"pending:q:{each['name']}" for each in resources]
        assert theirs.everything(*volatile) == ours.everything()
        assert theirs.counts("b")["dupeUrls"] == 1
