"""How an index files the answer to another request than a GET.

``cdxj-indexer -p``, pywb and wabac file it under the URL with the method and the
request's body as a query. So a replay tool that gets the same form again finds its
answer, and a GET of the page does not find it::

    com,example)/form?__wb_method=post&a=1 20260102030405 {"url": ..., ...,
        "requestBody": "a=1", "method": "POST"}

For POST and PUT this is cdxj-indexer 1.5, byte for byte (`tests/warc/
test_methods.py` compares the two). Other methods have no query; cdxj-indexer files
them as if they were GET, pywb and wabac by method, and so does this module: the
empty answer to a HEAD is not the page.
"""

from __future__ import annotations

import base64
import json
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_plus, urlencode

from multipart import MultipartParser

from frontier.errors import BadWarc
from frontier.warc.reader import Head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frontier.warc.reader import Found

QUERY_LIMIT = 4096
"""Most characters of a body that an index has."""
_UNSAID = 8192
"""Bytes that are taken of a body whose length is not said."""
_WITH_BODY = frozenset({"POST", "PUT"})
_ANSWERS = frozenset({"response", "revisit", "resource"})


class Asked(NamedTuple):
    """How a resource was asked for, if not with GET."""

    method: str = ""
    """Upper case; empty for GET."""
    body: str | None = ""
    """The request's body as a query; ``None`` if its length cannot be."""

    def filed(self, url: str) -> str:
        """The URL that an answer is filed under, not yet a key."""
        if not self.method:
            return url
        query = f"&{self.body}" if self.body else ""
        return f"{url}{'&' if '?' in url else '?'}__wb_method={self.method}{query}"


GET = Asked()


def asked(head: bytes, body: bytes) -> Asked:
    """What the request with *head* and *body* asked; of no request, a GET."""
    method = head.split(b" ", 1)[0].decode("latin-1").upper()
    if method in {"", "GET"}:
        return GET
    if method not in _WITH_BODY:
        return Asked(method)
    headers = Head(head)
    said = headers.get("content-length", "")
    try:
        size = int(said) if said else _UNSAID
    except ValueError:
        return Asked(method, None)
    return Asked(method, _query(headers.get("content-type"), body[: max(size, 0)]))


def paired(records: Iterable[Found]) -> Iterator[tuple[Found, Asked]]:
    """Yield *records*, and of each answer how it was asked for.

    Request and answer are neighbours of one URL, of which one names the other in
    WARC-Concurrent-To. Of an answer without a request nothing is known: a GET.

    Raises:
        BadWarc: As *records*; all that came before is yielded.
    """
    last: Found | None = None
    try:
        for found in records:
            if last is not None and _belong(last, found):
                is_first = last.kind == "request"
                request, answer = (last, found) if is_first else (found, last)
                head, gap, body = request.block.partition(b"\r\n\r\n")
                how = asked(head + gap, body)
                yield last, how if last is answer else GET
                yield found, how if found is answer else GET
                last = None
                continue
            if last is not None:
                yield last, GET
            last = found
    except BadWarc:
        if last is not None:
            yield last, GET
        raise
    if last is not None:
        yield last, GET


def _belong(one: Found, other: Found) -> bool:
    kinds = one.kind, other.kind
    if "request" not in kinds or _ANSWERS.isdisjoint(kinds):
        return False
    a, b = one.headers, other.headers
    named, names = "warc-record-id", "warc-concurrent-to"
    return a.get("warc-target-uri") == b.get("warc-target-uri") and (
        b.get(names) == a.get(named) or a.get(names) == b.get(named)
    )


def _query(mime: str, body: bytes) -> str:
    """The *body* of type *mime* as a query, at most `QUERY_LIMIT` characters."""
    if mime.startswith("application/x-www-form-urlencoded"):
        try:
            query = unquote_plus(body.decode("utf-8"))
        except UnicodeDecodeError:
            query = _binary(body)
    elif mime.startswith("multipart/"):
        query = _multipart(mime, body)
    elif mime.startswith("application/json"):
        query = _json(body) or ""
    elif mime.startswith("text/plain"):
        found = _json(body)
        query = _binary(body) if found is None else found
    else:
        query = _binary(body)
    return query[:QUERY_LIMIT]


def _binary(body: bytes) -> str:
    return "__wb_post_data=" + base64.b64encode(body[:QUERY_LIMIT]).decode("ascii")


def _multipart(mime: str, body: bytes) -> str:
    _, marked, boundary = mime.partition("boundary=")
    if not marked:
        return _binary(body)
    boundary = boundary.partition("boundary=")[0]
    try:
        parser = MultipartParser(BytesIO(body), boundary, charset="utf8")
        values = [
            (part.name, part.raw if part.filename else part.value) for part in parser
        ]
    except Exception:  # noqa: BLE001 - whatever is wrong with it, it is some bytes
        return _binary(body)
    return urlencode(values, doseq=True)


def _json(body: bytes) -> str | None:
    """The values in *body*, a JSON text or one a line; ``None`` if it is none."""
    values: dict[str, str] = {}
    again: dict[str, int] = {}

    def take(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                take(each, key)
        elif isinstance(value, list):
            for each in value:
                take(each, name)
        elif name:
            if name in values:
                again[name] = again.get(name, 1) + 1
                name = f"{name}.{again[name]}_"
            values[name] = str(value)

    try:
        try:
            take(json.loads(body))
        except json.JSONDecodeError:
            if b"\n" not in body:
                return None
            for line in body.split(b"\n"):
                take(json.loads(line))
    except (ValueError, RecursionError):
        return None
    return urlencode(values)
