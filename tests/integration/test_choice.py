"""A node that stores payloads decoded, leaves some out, and sends its files away."""

import gzip

from tests.rawsite import RawSite, answer
from tests.warc.judges import assert_sound, read_warcio

TEXT = b"<p>hello</p>" * 100
HTML = "Content-Type: text/html"


def test_warc_settings_choose_payload_coding_captures_and_upload(tmp_path, cluster):
    zipped = gzip.compress(TEXT)
    site = RawSite(
        {
            "/zipped": answer(zipped, HTML, "Content-Encoding: gzip"),
            "/plain": answer("ok", HTML),
            "/image": answer(b"\x89PNG", "Content-Type: image/png"),
            "/secret": answer("no", HTML),
        }
    )
    seeds = tmp_path / "seeds.txt"
    paths = ["/zipped", "/plain", "/image", "/secret", "/missing"]
    seeds.write_text("".join(f"{site.url(path)}\n" for path in paths))
    there = tmp_path / "there"
    cluster.start(
        "n1",
        "-a",
        f"seeds={seeds}",
        ROBOTSTXT_OBEY="0",
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
    stored = {}
    for path in there.glob("*.warc.gz"):
        assert path.with_name(path.name.replace(".warc.gz", ".cdxj")).stat().st_size
        assert_sound(path)
        for kind, headers, http, payload in read_warcio(path):
            if kind == "response":
                stored[headers["WARC-Target-URI"]] = dict(http), payload
    assert set(stored) == {site.url("/zipped"), site.url("/plain")}
    http, payload = stored[site.url("/zipped")]
    assert payload == TEXT
    assert http["X-Archive-Orig-Content-Encoding"] == "gzip"
    assert http["Content-Length"] == str(len(TEXT))
    assert "'frontier/archive/excluded': 3" in cluster.text_of("n1")
