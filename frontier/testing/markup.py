"""HTML for the site's pages.

A page's text is drawn from its subject: pages with the same subject and links
are the same bytes, others are not.

Small valid files of the formats that pages refer to.
"""

from __future__ import annotations

import random
import struct
import zlib
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


PNG_SIDE = 16
"""Width and height of a picture, in pixels."""

STYLE = b"body { margin: 2em; font-family: serif; }\nnav a { margin-right: 1em; }\n"
SCRIPT = b'"use strict";\ndocument.documentElement.dataset.ready = "yes";\n'


def png(red: int, green: int, blue: int) -> bytes:
    """A picture of one colour; uncompressed, so its bytes depend on no zlib."""
    header = struct.pack(">IIBBBBB", PNG_SIDE, PNG_SIDE, 8, 2, 0, 0, 0)
    row = b"\0" + bytes((red, green, blue)) * PNG_SIDE
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _png_chunk(b"IHDR", header),
            _png_chunk(b"IDAT", zlib.compress(row * PNG_SIDE, 0)),
            _png_chunk(b"IEND", b""),
        )
    )


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)


def pdf(text: str) -> bytes:
    """A document of one page that says *text*, which has no parentheses."""
    stream = f"BT /F1 18 Tf 20 100 Td ({text}) Tj ET".encode("ascii")
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 4 0 R"
            b" /Resources << /Font << /F1 5 0 R >> >> >>"
        ),
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
    )
    out = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n")
    table = bytearray(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    for number, content in enumerate(objects, start=1):
        table += b"%010d 00000 n \n" % len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(out)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\n" % (len(objects) + 1)
    return bytes(out + table + trailer + b"startxref\n%d\n%%%%EOF\n" % start)


PARAGRAPHS = 3
PARAGRAPH_WORDS = 60

_TEXT = (
    "archive basin canal delta ember fjord garden harbour island jetty kiln lantern "
    "meadow north orchard paper quarry river stone tower upland valley willow yard"
)
_WORDS = _TEXT.split()


def page(
    subject: str,
    links: Iterable[str],
    *,
    homes: Sequence[str],
    images: Iterable[str] = (),
) -> str:
    """A page about *subject* with navigation, *images*, text and *links*.

    The navigation leads to the home page, the hub and the about page of the
    page's own host and to *homes*. Style sheet, script and logo are requisites
    of every page.
    """
    nav = ("/", "/hub", "/about#top", *homes)
    lines = [
        "<!doctype html>",
        '<html lang="en">',
        f'<head><meta charset="utf-8"><title>{escape(subject)}</title>',
        '<link rel="stylesheet" href="/static/style.css">',
        '<script src="/static/app.js"></script></head>',
        "<body>",
        f"<nav>{' '.join(map(_anchor, nav))}</nav>",
        f'<h1 id="top">{escape(subject)}</h1>',
        *(f'<img alt="" src="{escape(src)}">' for src in ("/static/logo.png", *images)),
        *(f"<p>{text}</p>" for text in _paragraphs(subject)),
        '<p><a href="mailto:editor@example.org">Write to us</a></p>',
        "<ul>",
        *(f"<li>{_anchor(link)}</li>" for link in links),
        "</ul>",
        "</body></html>",
    ]
    return "\n".join(lines) + "\n"


def echo(body: bytes) -> str:
    """A page that shows *body*; what is not UTF-8 in it is replaced."""
    text = escape(body.decode("utf-8", "replace"))
    return f"<!doctype html>\n<title>Echo</title>\n<pre>{text}</pre>\n"


def _anchor(href: str) -> str:
    return f'<a href="{escape(href)}">{escape(href)}</a>'


def _paragraphs(subject: str) -> Iterable[str]:
    chance = random.Random(subject)
    for _ in range(PARAGRAPHS):
        yield " ".join(chance.choices(_WORDS, k=PARAGRAPH_WORDS)).capitalize() + "."
