"""Shows people what is in WARC files: a list of captures, or one of them in full.

What always holds:

1.  Files may be from anybody: memory is bounded whatever sizes they state, and a file
    that is cut off or damaged gives what it has up to there, and is named.
2.  Nothing that a terminal would obey comes from `Listed.line` or `shown`; `raw` gives
    the bytes as they are, and says so.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, NamedTuple

from frontier.cdx.lines import INDEXED, Capture, capture_of
from frontier.errors import BadWarc
from frontier.files import open_input
from frontier.model import Exchange, frozen
from frontier.warc.content_coding import decoded
from frontier.warc.reader import Found, body_of, parts_of, pulled_from, records_in
from frontier.warc.records import target_uri

BODY_LIMIT = 4 << 20
"""Most bytes of a record that are read to show it."""
_TEXT = re.compile(r"text/|application/(?:.*\+)?(?:json|xml|javascript)|.*warc-fields")
_CHARSET = re.compile(r"charset=[\"']?([A-Za-z0-9_-]{1,40})")
_END = b"\r\n\r\n"
_LINES = str.maketrans({"\r": None})


class Listed(NamedTuple):
    """A record of the file *path*, with the facts that a list shows."""

    path: Path
    capture: Capture

    def facts(self) -> dict[str, Any]:
        """The record as data for JSON."""
        one = self.capture
        return {
            "file": str(self.path),
            "offset": one.offset,
            "length": one.length,
            "type": one.kind,
            "record_id": one.record_id,
            "url": one.url,
            "date": one.date,
            "status": int(one.status) if one.status else None,
            "mime": one.mime,
        }

    def line(self) -> str:
        """The record as one line of a list."""
        one = self.capture
        words = (
            f"{one.date:<27}",
            f"{one.status or '-':>3}",
            f"{one.mime or '-':<24}",
            f"{one.kind:<8}",
            f"{self.path}:{one.offset}",
            one.url,
        )
        return harmless(" ".join(words))


@frozen
class Wanted:
    """Which captures are listed; a field that is empty lets all through."""

    url: str = ""
    """A URL, or a shell pattern such as ``https://example.org/*``."""
    statuses: frozenset[int] = frozenset()
    mime: str = ""
    """A media type, or a shell pattern."""

    def takes(self, one: Capture) -> bool:
        """Whether a capture is listed."""
        if self.statuses and int(one.status or 0) not in self.statuses:
            return False
        if self.mime and not fnmatch.fnmatchcase(one.mime.lower(), self.mime):
            return False
        url = target_uri(self.url)
        return not url or one.url == url or fnmatch.fnmatchcase(one.url, url)


def captures(path: Path, kinds: Collection[str] = INDEXED) -> Iterator[Listed]:
    """The captures in the file *path*, in its order; if *kinds* is empty, all records.

    Raises:
        BadWarc: It is cut off or damaged; what is before that was yielded.
        OSError: It cannot be read.
    """
    return (one for one in _records(path, 0) if not kinds or one.capture.kind in kinds)


def at(path: Path, offset: int) -> Listed:
    """The record that begins at *offset*.

    Raises:
        BadWarc: No record begins there.
        OSError: The file cannot be read.
    """
    with closing(_records(path, offset)) as records_there:
        for found in records_there:
            return found
    raise BadWarc(str(path), offset, "the file ends there")


def raw(listed: Listed) -> Generator[bytes, None, None]:
    """The record as it is, WARC headers first, without the compression of the file."""
    with open_input(listed.path) as file:
        found = _pulled(file, listed)
        yield found.headers.top + _END
        yield from parts_of(found)
        yield _END


def shown(listed: Listed) -> Iterator[str]:
    """The record as lines for a terminal: its heads, and its body if it is text."""
    block = b""
    with open_input(listed.path) as file:
        found = _pulled(file, listed)
        while len(block) < BODY_LIMIT and (part := found.read(BODY_LIMIT - len(block))):
            block += part
        is_whole = not found.read(1)
    yield from _head(found.headers.top)
    yield ""
    mime, body = listed.capture.mime, block
    if block.startswith(b"HTTP/") or found.kind == "request":
        head, gap, body = block.partition(b"\r\n\r\n")
        yield from _head(head)
        yield ""
        if is_whole and block.startswith(b"HTTP/"):
            body = _payload(head + gap, block)
        charset = _CHARSET.search(head.decode("latin-1"))
    else:
        mime = found.headers.get("content-type").partition(";")[0].strip()
        charset = None
    if not body:
        yield "(no body)"
    elif not _TEXT.match(mime) and not _is_text(body):
        yield f"({len(body):,} bytes of {harmless(mime or 'unknown type')}; see --raw)"
    else:
        yield from _text(body, charset[1] if charset else "utf-8")
    if not is_whole:
        yield f"(cut after {BODY_LIMIT:,} bytes; see --raw)"


def harmless(text: str) -> str:
    """*text* as one line without anything that a terminal would obey."""
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)


def _pulled(file: IO[bytes], listed: Listed) -> Found:
    return next(pulled_from(file, str(listed.path), listed.capture.offset))


def _records(path: Path, offset: int) -> Generator[Listed, None, None]:
    with open_input(path) as file:
        for found in records_in(file, str(path), offset):
            one = capture_of(found, path.name)
            kept = one._replace(
                kind=one.kind[:40],
                record_id=one.record_id[:200],
                date=one.date[:40],
                status=one.status if len(one.status) == 3 else "",
                mime=one.mime.partition(";")[0].strip()[:100],
            )
            yield Listed(path, kept)


def _payload(head: bytes, block: bytes) -> bytes:
    """The body of an HTTP response, without its codings where they can be undone."""
    try:
        body = b"".join(body_of(block))
    except ValueError:
        body = block[len(head) :]
    exchange = Exchange("", 0.0, b"", b"", head, body, 0)
    return bytes(decoded(exchange).response_body[:BODY_LIMIT])


def _head(head: bytes) -> Iterator[str]:
    for line in head.decode("utf-8", "replace").translate(_LINES).split("\n"):
        yield harmless(line)


def _text(body: bytes, charset: str) -> Iterator[str]:
    try:
        text = body.decode(charset, "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8", "replace")
    for line in text.translate(_LINES).split("\n"):
        yield harmless(line)


def _is_text(body: bytes) -> bool:
    part = body[:4096]
    if b"\0" in part:
        return False
    try:
        part.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(part) - 4 and len(part) == 4096
    return True
