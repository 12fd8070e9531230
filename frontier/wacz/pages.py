"""The list of pages: the HTML captures with status 200 or none, and their titles."""

from __future__ import annotations

import hashlib
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING

from frontier.cdx.cdxj_fields import title_in, title_of_resource

if TYPE_CHECKING:
    from frontier.warc.reader import Found


def page_of(found: Found, seeds: frozenset[str]) -> bytes | None:
    """Return the line of a page; ``None`` if the capture is no page."""
    if found.kind == "resource":
        title = title_of_resource(found.headers.get("content-type"), found.block)
    elif found.kind in {"response", "revisit"}:
        title = title_in(found.block)
    else:
        return None
    if title is None:
        return None
    url = found.headers.get("warc-target-uri").strip("<>")
    return line(url, found.headers.get("warc-date"), _json(title), url in seeds)


def line(url: str, date: str, title: str, is_seed: bool) -> bytes:
    """Return the line of a page; its *title* is a JSON string."""
    text = f'{{"id": "{_identifier(f"{url} {date}")}", "url": {_json(url)}'
    text += f', "ts": {_json(date)}'
    if title != '""':
        text += f', "title": {title}'
    if is_seed:
        text += ', "seed": true'
    return f"{text}}}\n".encode()


def _identifier(name: str) -> str:
    """A name of 32 digits that follows from the URL and the date."""
    return hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()[:32]
