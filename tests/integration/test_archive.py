"""What two nodes wrote, read back with libraries that did not write it."""

import json
import subprocess
import sys
from pathlib import Path

from fastwarc import ArchiveIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

SCRIPTS = Path(sys.executable).parent


def crawl(serve_site, cluster, prefix):
    seeds = ",".join(serve_site.seeds)
    for number in (1, 2):
        cluster.start(f"{prefix}{number}", "-a", f"seeds={seeds}")
    assert cluster.wait(f"{prefix}1", f"{prefix}2") == [0, 0]


def captures(files):
    """(URI, date) to (type, payload digest, headers) of responses and revisits."""
    found = {}
    for path in files:
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream, parse_http=False):
                headers = {k.lower(): v for k, v in record.headers.items()}
                kind = headers["warc-type"]
                if kind in {"response", "revisit"}:
                    key = (headers["warc-target-uri"], headers["warc-date"])
                    assert key not in found
                    found[key] = (kind, headers["warc-payload-digest"], headers)
    return found


def test_a_second_crawl_is_revisits_that_refer_to_the_first(serve, cluster):
    server = serve(urls=200, hosts=4, calendar_months=12)
    crawl(server, cluster, "a")
    crawl(server, cluster, "b")
    files = sorted(cluster.warc_dir.glob("*.warc.gz"))

    assert [f for f in files if f.suffix != ".gz"] == []
    for path in files:
        for tool in ("warcio", "fastwarc"):
            subprocess.run([SCRIPTS / tool, "check", path], check=True)
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
        kind, target_digest, _ = every[target]
        assert kind == "response"
        assert target_digest == digest


def test_every_exchange_is_archived_with_its_request(serve, cluster):
    server = serve(urls=130, hosts=2, calendar_months=12)
    crawl(server, cluster, "n")
    log = server.requests()
    requests, responses = [], []
    for path in cluster.warc_dir.glob("*.warc.gz"):
        with path.open("rb") as stream:
            for record in WarcioIterator(stream):
                uri = record.rec_headers.get_header("WARC-Target-URI")
                if record.rec_type == "request":
                    requests.append(uri)
                elif record.rec_type in {"response", "revisit"}:
                    responses.append(uri)
                elif record.rec_type == "warcinfo":
                    text = record.content_stream().read().decode()
                    assert "FRONTIER_PARTITIONS: 1024" in text

    assert sorted(requests) == sorted(responses)
    assert sorted(responses) == sorted(entry.url for entry in log.entries)


def test_an_item_is_told_which_record_backs_it(serve, cluster, tmp_path):
    server = serve(urls=130, hosts=2, calendar_months=12)
    seeds = ",".join(server.seeds)
    items = tmp_path / "items.jsonl"
    cluster.start("node-1", "-a", f"seeds={seeds}", "-o", str(items))
    assert cluster.wait() == [0]
    kinds = set()
    for line in items.read_text("utf-8").splitlines():
        item = json.loads(line)
        stamp = item["warc"]
        kinds.add(stamp["type"])
        with (cluster.warc_dir / stamp["file"]).open("rb") as stream:
            stream.seek(stamp["offset"])
            record = next(iter(ArchiveIterator(stream, parse_http=False)))
            headers = {k.lower(): v for k, v in record.headers.items()}
        assert headers["warc-record-id"] == stamp["record_id"]
        assert headers["warc-type"] == stamp["type"]
        assert headers["warc-target-uri"] == item["url"]
        assert headers["warc-payload-digest"] == stamp["payload_digest"]

    assert kinds == {"response", "revisit"}
