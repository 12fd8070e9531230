"""What two nodes wrote, read back with libraries that did not write it."""

import json
import signal

from conftest import PARTITIONS, until
from fastwarc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

from tests.warc.judges import assert_sound, records_in


def crawl(serve_site, cluster, prefix):
    """Crawl with two nodes; return their items."""
    seeds, nodes = ",".join(serve_site.seeds), (f"{prefix}1", f"{prefix}2")
    for node in nodes:
        items = str(cluster.directory / f"{node}.jsonl")
        cluster.start(node, "-a", f"seeds={seeds}", "-o", items)
    cluster.finish(*nodes)
    paths = [cluster.directory / f"{node}.jsonl" for node in nodes]
    texts = [path.read_text("utf-8") for path in paths if path.exists()]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def captures(files):
    """(URI, date) to (type, payload digest, headers) of responses and revisits."""
    found = {}
    for given, _ in records_in(files):
        headers = {name.lower(): value for name, value in given.items()}
        kind = headers["warc-type"]
        if kind in {"response", "revisit"}:
            key = (headers["warc-target-uri"], headers["warc-date"])
            assert key not in found
            found[key] = (kind, headers["warc-payload-digest"], headers)
    return found


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


def test_a_second_crawl_is_revisits_that_refer_to_the_first(serve, cluster):
    """Also by the ids of records, though the first crawl was deleted."""
    server = serve(urls=200, hosts=4, calendar_months=12)
    items = crawl(server, cluster, "a")
    cluster.do("crawl", "delete", "--crawl", "site-1", "--yes")
    items += crawl(server, cluster, "b")
    files = sorted(cluster.warc_dir.glob("*.warc.gz"))

    assert [f for f in files if f.suffix != ".gz"] == []
    for path in files:
        assert_sound(path)
    every = captures(files)
    revisits = {k: v for k, v in every.items() if v[0] == "revisit"}
    second = captures([f for f in files if f.name.startswith("site-2-")])
    # Redirects, errors and empty bodies are never revisits.
    plain = [v for v in second.values() if v[0] == "response"]
    assert len(plain) < len(second) / 4
    assert revisits
    for _, digest, headers in revisits.values():
        target = (
            headers["warc-refers-to-target-uri"],
            headers["warc-refers-to-date"],
        )
        kind, target_digest, original = every[target]
        assert kind == "response"
        assert headers["warc-refers-to"] == original["warc-record-id"]
        assert target_digest == digest
    every_exchange_has_its_request(files, server.requests())
    each_item_names_its_record(items, cluster.warc_dir)


def every_exchange_has_its_request(files, log):
    requests, responses = [], []
    for path in files:
        with path.open("rb") as stream:
            for record in WarcioIterator(stream):
                uri = record.rec_headers.get_header("WARC-Target-URI")
                if record.rec_type == "request":
                    requests.append(uri)
                elif record.rec_type in {"response", "revisit"}:
                    responses.append(uri)
                elif record.rec_type == "warcinfo":
                    text = record.content_stream().read().decode()
                    assert f"FRONTIER_PARTITIONS: {PARTITIONS}" in text

    assert sorted(requests) == sorted(responses)
    assert sorted(responses) == sorted(entry.url for entry in log.entries)


def each_item_names_its_record(items, directory):
    kinds = set()
    for item in items:
        stamp = item["warc"]
        kinds.add(stamp["type"])
        with (directory / stamp["file"]).open("rb") as stream:
            stream.seek(stamp["offset"])
            record = next(iter(ArchiveIterator(stream, parse_http=False)))
            headers = {k.lower(): v for k, v in record.headers.items()}
        assert headers["warc-record-id"] == stamp["record_id"]
        assert headers["warc-type"] == stamp["type"]
        assert headers["warc-target-uri"] == item["url"]
        assert headers["warc-payload-digest"] == stamp["payload_digest"]

    assert kinds == {"response", "revisit"}
