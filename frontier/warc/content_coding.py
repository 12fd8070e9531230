"""Undoes content codings before a payload is stored, where that is wanted.

A body that cannot be decoded is stored as received: if its coding is unknown, if it
is damaged or cut off, or if it grows beyond `LIMIT`. Its head then stays as received,
too, so head and body always agree.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from frontier.warc.zstd import zstd_module

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.model import Body, Exchange

LIMIT = 256 * 1024 * 1024
"""Most bytes that a decoded body may have."""

_BLOCK = 1 << 16
_CODING = re.compile(
    rb"^(content-encoding[ \t]*:[ \t]*)([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
_LENGTH = re.compile(
    rb"^(content-length[ \t]*:)[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE
)
_UNDONE = b"X-Archive-Orig-"


def decoded(exchange: Exchange) -> Exchange:
    """Return *exchange* without its content coding, or as it is.

    Headers that are no longer true get the prefix ``X-Archive-Orig-``.
    """
    head, body = exchange.response_head, exchange.response_body
    lines = _CODING.findall(head)
    if not lines or not body:
        return exchange
    try:
        for coding in reversed(b",".join(line[1] for line in lines).split(b",")):
            body = _decode(coding.strip().lower(), body)
    except Exception:  # noqa: BLE001 - each library has its own
        return exchange
    head = _CODING.sub(_UNDONE + rb"\1\2", head)
    head = _LENGTH.sub(lambda line: _UNDONE + line[0], head)
    head = head[:-2] + b"Content-Length: %d\r\n\r\n" % len(body)
    return replace(exchange, response_head=head, response_body=body)


def _decode(coding: bytes, body: Body) -> Body:
    if coding in {b"identity", b""}:
        return body
    if coding in {b"gzip", b"x-gzip"}:
        return inflated(body, lambda: zlib.decompressobj(31))
    if coding == b"deflate":
        try:
            return inflated(body, lambda: zlib.decompressobj(15))
        except zlib.error:  # without the header that the RFC demands
            return inflated(body, lambda: zlib.decompressobj(-15))
    if coding == b"zstd":  # frame after frame (RFC 8878, section 3)
        return inflated(body, zstd_module().ZstdDecompressor, is_joined=True)
    if coding == b"br":
        return inflated(body, _Brotli)
    raise ValueError("a coding that nobody knows")


class _Brotli:
    """Brotli's decompressor, with the methods of the others."""

    unused_data = b""

    def __init__(self) -> None:
        self._brotli: Any = import_module("brotli").Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._brotli.is_finished())

    def decompress(self, data: bytes, size: int) -> bytes:
        part: bytes = self._brotli.process(data, output_buffer_limit=size)
        return part


def inflated(
    body: Body, new: Callable[[], Any], limit: int = 0, *, is_joined: bool = False
) -> bytes:
    """The content of *body*, one member or frame; several only if it *is_joined*.

    *new* makes a decompressor.

    Raises:
        ValueError: It is cut off, or something follows it, or it has more than *limit*
            bytes, or than `LIMIT` without one.
    """
    parts, size, inflate = [], 0, new()
    for start in range(0, len(body), _BLOCK):
        data = part = bytes(body[start : start + _BLOCK])
        while data or part:
            if inflate.eof and data:
                if not is_joined:
                    raise ValueError("something follows its end")
                inflate = new()
            part = b"" if inflate.eof else inflate.decompress(data, _BLOCK)
            size += len(part)
            if size > (limit or LIMIT):
                raise ValueError(f"it has more than {limit:,} bytes")
            parts.append(part)
            data = inflate.unused_data or getattr(inflate, "unconsumed_tail", b"")
    if not inflate.eof:
        raise ValueError("it is cut off")
    return b"".join(parts)
