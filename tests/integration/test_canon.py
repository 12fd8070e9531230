"""A crawl under Heritrix's rules fetches one URL of each family of session ids."""

from collections import Counter

from frontier.cdx.lines import META, key_under, parse
from frontier.urls.canon.rulesets import named
from tests.warc.judges import records_in

RULES = "heritrix"


def crawl(serve, cluster):
    server = serve(urls=120, hosts=2, calendar_months=1)
    seeds = ",".join(server.seeds)
    settings = {"FRONTIER_CANON_RULES": RULES, "FRONTIER_WARC_CDXJ_KEYS": "rules"}
    cluster.start("node-1", "-a", f"seeds={seeds}", **settings)
    cluster.finish()
    urls = {entry.url for entry in server.requests().entries}
    return Counter(url.partition("?")[0] for url in urls if "/article/" in url)


def records(cluster):
    for headers, block in records_in(sorted(cluster.warc_dir.glob("*.warc.gz"))):
        if headers["WARC-Type"] in {"warcinfo", "metadata"}:
            yield headers["WARC-Type"], block.decode()


def test_session_ids_tell_no_pages_apart_where_the_rules_say_so(serve, cluster):
    fetched = crawl(serve, cluster)

    assert len(fetched) > 5
    assert set(fetched.values()) == {1}
    said = list(records(cluster))
    info = next(text for kind, text in said if kind == "warcinfo")
    record = next(text for kind, text in said if kind == "metadata")
    assert f"canonicalization: {RULES}; version=1; sha256=" in info
    assert f'"name":"{RULES}"' in record
    indexes = list(cluster.warc_dir.glob("*.cdxj"))
    assert indexes
    for path in indexes:
        meta, *lines = path.read_bytes().splitlines()
        assert meta.startswith(META)
        assert named(RULES).statement in meta.decode()
        assert lines
        for line in map(parse, lines):
            assert line.key == key_under(named(RULES), line.url)
