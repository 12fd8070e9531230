"""Pages made to keep a node busy: all others are fetched, and those are told."""

import gzip
import json

from tests.rawsite import RawSite

HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
CSS = b"HTTP/1.1 200 OK\r\nContent-Type: text/css\r\n"
SLOW = 200_000
"""Bytes of what took minutes."""
PAGES = [f"/page/{number}" for number in range(12)]


def answer(body, head=HTML):
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


def linking(paths, more=b""):
    return answer(b"".join(b'<a href="%b">x</a>' % p.encode() for p in paths) + more)


HOSTILE = {
    "/sheet.css": answer(b"url(" * (SLOW // 4) + b") url(/shown)", CSS),
    "/blanks": answer(b'<img srcset="' + b" " * SLOW + b'"><a href="/after/blanks">'),
    "/style": answer(
        b'<p style="' + b"url(" * (SLOW // 4) + b'"><a href="/after/style">'
    ),
    "/deep": answer(b"<div>" * 20_000 + b"</b>" * 20_000 + b'<a href="/after/deep">'),
    "/attributes": answer(
        b"<p "
        + b"".join(b"a%d=1 " % n for n in range(25_000))
        + b'><a href="/after/p">'
    ),
}
AFTER = ["/shown", "/after/blanks", "/after/style", "/after/deep", "/after/p"]
TOO_MUCH = b'<a href="/read">' + b"<p><b>" * 1_000_000 + b'<a href="/not/read">'


def test_what_kept_a_node_busy_for_hours_is_read_and_what_is_too_much_is_told(cluster):
    pages = {path: answer(b"<title>page</title>") for path in [*PAGES, *AFTER, "/read"]}
    pages["/"] = linking([*HOSTILE, "/much", *PAGES])
    pages["/much"] = answer(TOO_MUCH)
    site = RawSite({**pages, **HOSTILE})
    site.open.clear()
    for node_id in ("node-1", "node-2"):
        cluster.start(
            node_id,
            *("-a", f"seeds={site.url('/')}"),
            ROBOTSTXT_OBEY="False",
            FRONTIER_WORKER_SECONDS="0.2",
        )
    cluster.join()
    site.open.set()

    assert cluster.wait() == [0, 0]
    text = cluster.text_of("node-1") + cluster.text_of("node-2")
    assert site.requests.keys() >= {*pages, *HOSTILE}
    assert "/not/read" not in site.requests
    told = f"{site.url('/much')} is archived, but not all of its links are followed: "
    assert text.count(told + "it takes more than 0.2 s of CPU time") == 1
    assert text.count("is archived, but not all") == 1
    assert cluster.store  # starts it again, for the command
    dead = json.loads(cluster.ask("crawl", "dead", "--json").stdout)
    assert [letter["url"] for letter in dead["letters"]] == [site.url("/much")]
    assert "0.2 s of CPU time" in dead["letters"][0]["reason"]
    records = b"".join(
        gzip.decompress(path.read_bytes()) for path in cluster.warc_dir.glob("*.gz")
    )
    assert b"WARC-Target-URI: %b" % site.url("/much").encode() in records
    assert TOO_MUCH in records
