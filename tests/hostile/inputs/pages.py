"""Pages and style sheets: what kept a node busy for minutes is read, all of it."""

from frontier.urls.links import PageCut, links_job
from tests.hostile.corpus import hostile_each

SIZE = 1_000_000
NEXT = "http://a.example/next"
LINK = b"<a href=/next>"


def links_in(content, *, is_html):
    given = {"url": "http://a.example/", "encoding": "utf-8", "is_html": is_html}
    *parts, _ = links_job(content, given)
    return [link for part in parts for link in part]


@hostile_each(
    "page",
    {
        "blanks-in-a-srcset": b"<img srcset='" + b" " * SIZE + b"'>",
        "url-in-a-style-attribute": b"<p style='" + b"url(" * (SIZE // 4) + b"'>",
        "url-in-a-style": b"<style>" + b"url(" * (SIZE // 4) + b"</style>",
        "attributes": b"<p " + b"".join(b"a%d=1 " % n for n in range(15_000)) + b">",
        "less-than": b"<" * SIZE,
        "nul": b"<p>\0" * (SIZE // 4),
        "one-long-link": b"<a href='" + b"x" * SIZE + b"'>",
        "dots": b"<a href='" + b"../" * (SIZE // 3) + b"'>",
    },
)
def _(given, content):
    assert links_in(content + LINK, is_html=True)[-1] == NEXT


@hostile_each("deep", {"open": b"<div>" * (SIZE // 10) + b"</b>" * (SIZE // 8)})
def _(given, content):
    """It is read down to a depth, and the rest is told."""
    try:
        links_in(LINK + content + LINK, is_html=True)
    except PageCut as error:
        assert "depth" in str(error)
    else:
        raise AssertionError


@hostile_each(
    "sheet",
    {
        "url": b"url(" * (SIZE // 4),
        "url-and-quote": b'url("' * (SIZE // 5),
        "blanks": b"url(" + b" " * SIZE,
        "backslashes": b'url("' + b"\\\\" * (SIZE // 2),
        "import": b"@import " * (SIZE // 8),
    },
)
def _(given, content):
    assert links_in(content + b'"\n) url(/next)', is_html=False)[-1] == NEXT
