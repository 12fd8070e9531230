"""A node that stores payloads decoded, leaves some out, and sends its files away.

Under Heritrix's rules it fetches one URL of each family of session ids.
"""

import gzip

from frontier.cdx.lines import META, key_under, parse
from frontier.urls.canon.rulesets import named
from tests.rawsite import RawSite, answer
from tests.warc.judges import assert_sound, read_warcio

TEXT = b"<p>hello</p>" * 100
HTML = "Content-Type: text/html"
RULES = "heritrix"
SESSIONS = [f"/plain?PHPSESSID={digit * 32}" for digit in "ab"]


def test_warc_settings_choose_payload_coding_captures_and_upload(tmp_path, cluster):
    zipped = gzip.compress(TEXT)
    site = RawSite(
        {
            "/zipped": answer(zipped, HTML, "Content-Encoding: gzip"),
            **dict.fromkeys(SESSIONS, answer("ok", HTML)),
            "/image": answer(b"\x89PNG", "Content-Type: image/png"),
            "/secret": answer("no", HTML),
        }
    )
    seeds = tmp_path / "seeds.txt"
    paths = ["/zipped", *SESSIONS, "/image", "/secret", "/missing"]
    seeds.write_text("".join(f"{site.url(path)}\n" for path in paths))
    there = tmp_path / "there"
    cluster.start(
        "n1",
        "-a",
        f"seeds={seeds}",
        ROBOTSTXT_OBEY="0",
        FRONTIER_CANON_RULES=RULES,
        FRONTIER_WARC_CDXJ_KEYS="rules",
        FRONTIER_WARC_PAYLOAD="decoded",
        FRONTIER_WARC_INCLUDE="mime:text/* status:2xx",
        FRONTIER_WARC_EXCLUDE="url:/secret$",
        FRONTIER_WARC_UPLOAD=f"file://{there}",
        FRONTIER_WARC_UPLOAD_REMOVE="1",
    )
    cluster.finish("n1")
    cluster.close()
    site.close()

    assert list(cluster.warc_dir.iterdir()) == []
    (plain,) = site.requests.keys() & {*SESSIONS}
    stored = {}
    (path,) = there.glob("*.warc.gz")
    assert_sound(path)
    (_, _, _, info), *records = read_warcio(path)
    assert f"canonicalization: {RULES}; version=1; sha256=" in info.decode()
    for kind, headers, http, payload in records:
        if kind == "response":
            stored[headers["WARC-Target-URI"]] = dict(http), payload
    assert set(stored) == {site.url("/zipped"), site.url(plain)}
    meta, *lines = (
        (there / path.name.replace(".warc.gz", ".cdxj")).read_bytes().splitlines()
    )
    assert meta.startswith(META)
    assert named(RULES).statement in meta.decode()
    assert [line.url for line in map(parse, lines)] == sorted(stored)
    for line in map(parse, lines):
        assert line.key == key_under(named(RULES), line.url)
    http, payload = stored[site.url("/zipped")]
    assert payload == TEXT
    assert http["X-Archive-Orig-Content-Encoding"] == "gzip"
    assert http["Content-Length"] == str(len(TEXT))
    assert "'frontier/archive/excluded': 3" in cluster.text_of("n1")
