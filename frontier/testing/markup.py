"""HTML for the site's pages.

A page's text is drawn from its subject: pages with the same subject and links
are the same bytes, others are not.
"""

from __future__ import annotations

import random
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
