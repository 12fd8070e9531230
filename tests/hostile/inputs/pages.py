"""Pages: markup, links, hops and feeds."""

from tests.hostile.crawling import html, moved, page

LINK = "<a href=/x>x</a>"


def refresh(target):
    return f'<meta http-equiv="refresh" content="0; url={target}">'


@page("pages/elements-of-100000-levels", html("<div>" * 100_000 + LINK))
def _(came):
    assert came.codes("/") == [200]


@page("pages/inline-elements-of-100000-levels", html("<b><i>" * 50_000 + LINK))
def _(came):
    assert came.codes("/") == [200]


@page("pages/tables-of-20000-levels", html("<table><tr><td>" * 20_000 + LINK))
def _(came):
    assert came.codes("/") == [200]


@page(
    "pages/a-tag-with-100000-attributes",
    html("<a " + " ".join(f"a{n}=b" for n in range(100_000)) + " href=/x>x"),
)
def _(came):
    assert came.codes("/") == [200]


@page("pages/an-attribute-of-3-mb", html("<p title='" + "x" * (3 << 20) + "'>" + LINK))
def _(came):
    assert came.codes("/") == [200]


@page("pages/comments-that-do-not-end", html(LINK + "<!--" * 100_000))
def _(came):
    assert came.codes("/") == [200]


@page(
    "pages/entities-of-entities",
    html(
        '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
        + "".join(
            f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9)
        )
        + "]><x>&j;</x>"
        + LINK,
        kind="application/xhtml+xml",
    ),
)
def _(came):
    assert came.codes("/") == [200]


@page(
    "pages/an-entity-of-a-file",
    html(
        '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><rss>&a;</rss>',
        kind="application/rss+xml",
    ),
)
def _(came):
    assert came.codes("/") == [200]


@page(
    "pages/an-entity-of-a-site",
    html(
        '<?xml version="1.0"?><!DOCTYPE x SYSTEM "{origin}/evil.dtd"><x>y</x>',
        kind="text/xml",
    ),
)
def _(came):
    assert "/evil.dtd" not in came.asked


@page(
    "pages/an-svg-of-a-billion-laughs",
    html(
        '<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "'
        + "a" * 1_000
        + '">'
        + "".join(
            f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(7)
        )
        + "]><svg>&h;</svg>",
        kind="image/svg+xml",
    ),
)
def _(came):
    assert came.codes("/") == [200]


@page("pages/a-base-of-another-host", html('<base href="http://127.2.0.9/">' + LINK))
def _(came):
    assert came.pages() == 1


@page("pages/a-base-of-a-file", html('<base href="file:///etc/">' + LINK))
def _(came):
    assert came.pages() == 1


@page("pages/a-base-of-brackets", html('<base href="http://[::1/">' + LINK))
def _(came):
    """Scrapy's own search for a refresh fails of it: it is stored, and not followed."""
    assert came.codes("/") == [200]


@page(
    "pages/a-thousand-bases",
    html("".join(f'<base href="/{n}/">' for n in range(1_000)) + "<a href=x>x</a>"),
)
def _(came):
    assert "/0/x" in came.asked


ODD = [
    "javascript:alert(1)", "data:text/html,x", "mailto:a@b", "tel:1", "file:///etc/passwd",
    "ftp://127.2.0.9/", "http://", "http:///x", "http://[::1/", "http://a b/",
    "http://127.2.0.9:99999/", "//", "///", "http://127.2.0.9:-1/", "http://%00/",
    "http://\u202egro.elpmaxe/", "HTTP://", "http:\\\\127.2.0.9\\", "about:blank",
    "blob:http://a/", "http://" + "a" * 300 + ".example/",
    "http://" + "a." * 200 + "example/",
    "view-source:x", "\x01\x02", "http://xn--a/", "http://a\u0301.\u3002/",
]  # fmt: skip


@page(
    "pages/links-that-lead-nowhere",
    html(
        "".join(f'<a href="{link}">x</a>' for link in ODD) + LINK,
        kind="text/html; charset=utf-8",
    ),
)
def _(came):
    assert came.pages() <= 3  # a browser takes backslashes for slashes
    assert "/x" in came.asked


ESCAPED = [
    "/a\0b",
    "/a\r\nX-Evil: y",
    "/a%0d%0aX-Evil: y",
    "/a%00b",
    "/a\tb",
    "/a b",
    "/\u00fc",
    "/%zz",
    "/a\\b",
    "/\x7f",
    "/;",
    "/?",
    "/a?\r\nEvil: y",
]


@page(
    "pages/links-with-line-ends",
    html(
        "".join(f'<a href="{link}">x</a>' for link in ESCAPED),
        kind="text/html; charset=utf-8",
    ),
)
def _(came):
    assert all("x-evil" not in head.split("\r\n", 1)[1] for head in came.heads)
    assert all(head.count("\r\nhost:") == 1 for head in came.heads)
    assert 5 <= came.pages() <= 14


@page("pages/a-link-of-a-megabyte", html(f"<a href='/{'y' * (1 << 20)}'>x</a>" + LINK))
def _(came):
    assert "/x" in came.asked


@page("pages/a-link-that-climbs", html("<a href='" + "../" * 500 + "x'>x</a>"))
def _(came):
    assert came.asked.count("/x") == 1


@page(
    "pages/ten-thousand-links-of-one-page",
    html("".join(f"<a href='#{n}'>x</a>" for n in range(10_000)) + LINK),
)
def _(came):
    assert came.pages() == 2


@page(
    "pages/one-link-with-ten-thousand-fragments",
    html("".join(f"<a href='/x#{n}'>x</a>" for n in range(10_000))),
)
def _(came):
    assert came.pages() == 2


@page("pages/a-refresh-of-itself", html(refresh("/")))
def _(came):
    assert came.pages() <= 7


@page("pages/a-refresh-of-a-script", html(refresh("javascript:alert(1)")))
def _(came):
    assert came.pages() == 1


@page("pages/a-refresh-of-a-file", html(refresh("file:///etc/passwd")))
def _(came):
    assert came.pages() == 1
    assert "root:" not in came.log


@page("pages/a-refresh-of-brackets", html(refresh("http://[::1/")))
def _(came):
    assert came.pages() == 1


@page("pages/a-title-of-3-mb", html(f"<title>{'x' * (3 << 20)}</title>" + LINK))
def _(came):
    assert "/x" in came.asked


@page("pages/a-title-with-escapes", html("<title>\x1b]0;owned\x07</title>"))
def _(came):
    assert "\x1b" not in came.log


@page("pages/nuls-between-letters", html(LINK.encode("utf-16-le") * 100))
def _(came):
    assert came.codes("/") == [200]


@page("pages/a-million-angles", html("<" * 1_000_000))
def _(came):
    assert came.codes("/") == [200]


@page("hops/a-loop-of-one", moved("/"))
def _(came):
    assert came.pages() <= 6


@page("hops/a-loop-of-two", {"/": moved("/b"), "/b": moved("/")})
def _(came):
    assert came.pages() <= 6


@page(
    "hops/a-chain-without-end",
    {"*": moved("/x?" + "y" * 10)}
    | {"/robots.txt": html("", kind="text/plain")}
    | {f"/{n or ''}": moved(f"/{n + 1}") for n in range(50)},
)
def _(came):
    assert came.pages() <= 6


@page("hops/to-a-file", moved("file:///etc/passwd"))
def _(came):
    assert came.codes("/") == [302]
    assert "root:" not in came.log


@page("hops/to-a-script", moved("javascript:alert(1)"))
def _(came):
    assert came.codes("/") == [302]


@page("hops/to-data", moved("data:text/html,<a href=/x>x</a>"))
def _(came):
    assert came.codes("/") == [302]
    assert came.pages() == 1


@page("hops/to-brackets", moved("http://[::1/"))
def _(came):
    assert came.codes("/") == [302]


@page("hops/to-a-port-of-99999", moved("http://127.2.0.9:99999/"))
def _(came):
    assert came.codes("/") == [302]


@page("hops/to-nothing", moved(""))
def _(came):
    assert came.pages() <= 6


@page("hops/with-line-ends", moved("/a%0d%0aX-Evil:%20y"))
def _(came):
    assert all("x-evil: y" not in head for head in came.heads)


@page("hops/to-latin-1", moved(b"/\xe9\xff"))
def _(came):
    assert came.pages() == 2


@page(
    "hops/two-locations",
    moved(b"/a\r\nLocation: file:///etc/passwd"),
)
def _(came):
    assert came.codes("/") == [302]


@page(
    "hops/with-a-body-of-links",
    moved(b"/a\r\nContent-Type: text/html").replace(b"th: 0", b"th: 16")
    + b"<a href=/b>x</a>",
)
def _(came):
    assert "/b" not in came.asked
