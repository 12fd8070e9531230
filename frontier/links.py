"""Links: what a page leads to, and what it needs to be shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin

from parsel import Selector
from scrapy.http import HtmlResponse, TextResponse
from w3lib.html import strip_html5_whitespace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.http import Response

ATTRIBUTES = (
    "//a/@href | //area/@href | //link/@href | //img/@src | //script/@src"
    " | //iframe/@src | //frame/@src | //embed/@src | //source/@src | //audio/@src"
    " | //video/@src | //video/@poster | //track/@src | //object/@data"
    " | //input[@type='image']/@src | //body/@background"
)
SETS = "//img/@srcset | //source/@srcset | //link/@imagesrcset"
STYLES = "//style/text() | //@style"
_CSS_URL = re.compile(
    r"""url\(\s*(?:"([^"]*)"|'([^']*)'|([^)'"\s]+))\s*\)|@import\s+["']([^"']+)["']""",
    re.IGNORECASE,
)
_CANDIDATE = re.compile(r"\s*([^\s,]\S*[^\s,]|[^\s,])(?:\s+[^,]*)?(?:,|$)")


def links_of(response: Response) -> list[str]:
    """Absolute URLs that *response* leads to, in order, each once, no fragments.

    Of HTML, links and requisites; of CSS, what it imports and shows.
    """
    found: dict[str, None] = {}
    base = response.url
    if isinstance(response, HtmlResponse):
        page = _parsed(response)
        base = _base(response.url, page)
        links = _of_html(page)
    elif isinstance(response, TextResponse) and _is_css(response):
        links = _of_css(response.text)
    else:
        return []
    for link in links:
        text = strip_html5_whitespace(link)
        if not text or text.startswith("#"):
            continue
        try:
            url = urldefrag(urljoin(base, text)).url
        except ValueError:
            continue
        scheme, _, rest = url.partition(":")
        if scheme.lower() in ("http", "https") and rest.startswith("//"):
            found[f"{scheme.lower()}:{rest}"] = None
    return list(found)


def _parsed(response: HtmlResponse) -> Selector:
    try:
        return response.selector
    except ValueError:  # Scrapy raises it where <base> is not a URL
        return Selector(text=response.text)


def _base(url: str, page: Selector) -> str:
    given = page.xpath("//base/@href").get()
    try:
        return urljoin(url, given) if given else url
    except ValueError:
        return url


def _of_html(page: Selector) -> Iterator[str]:
    yield from page.xpath(ATTRIBUTES).getall()
    for srcset in page.xpath(SETS).getall():
        yield from (match.group(1) for match in _CANDIDATE.finditer(srcset))
    for style in page.xpath(STYLES).getall():
        yield from _of_css(style)


def _of_css(text: str) -> Iterator[str]:
    for match in _CSS_URL.finditer(text):
        yield next(group for group in match.groups() if group is not None)


def _is_css(response: TextResponse) -> bool:
    kind = response.headers.get("Content-Type") or b""
    return kind.split(b";")[0].strip().lower() == b"text/css"
