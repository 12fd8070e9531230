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


class _Undecodable(Exception):
    """The body is stored as it is."""


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
    except _Undecodable:
        return exchange
    head = _CODING.sub(_UNDONE + rb"\1\2", head)
    head = _LENGTH.sub(lambda line: _UNDONE + line[0], head)
    head = head[:-2] + b"Content-Length: %d\r\n\r\n" % len(body)
    return replace(exchange, response_head=head, response_body=body)


def _decode(coding: bytes, body: Body) -> Body:
    if coding in {b"identity", b""}:
        return body
    try:
        if coding in {b"gzip", b"x-gzip"}:
            return _inflated(body, lambda: zlib.decompressobj(31))
        if coding == b"deflate":
            try:
                return _inflated(body, lambda: zlib.decompressobj(15))
            except zlib.error:  # without the header that the RFC demands
                return _inflated(body, lambda: zlib.decompressobj(-15))
        if coding == b"zstd":  # frame after frame (RFC 8878, section 3)
            return _inflated(body, zstd_module().ZstdDecompressor, is_joined=True)
        if coding == b"br":
            return _inflated(body, _Brotli)
    except Exception:  # noqa: BLE001 - each library has its own
        raise _Undecodable from None
    raise _Undecodable


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


def _inflated(body: Body, new: Callable[[], Any], *, is_joined: bool = False) -> bytes:
    """The content of *body*, one member or frame; several only if it *is_joined*."""
    parts, size, inflate = [], 0, new()
    for start in range(0, len(body), _BLOCK):
        data = part = bytes(body[start : start + _BLOCK])
        while data or part:
            if inflate.eof and data:
                if not is_joined:
                    raise _Undecodable
                inflate = new()
            part = b"" if inflate.eof else inflate.decompress(data, _BLOCK)
            size += len(part)
            if size > LIMIT:
                raise _Undecodable
            parts.append(part)
            data = inflate.unused_data or getattr(inflate, "unconsumed_tail", b"")
    if not inflate.eof:
        raise _Undecodable
    return b"".join(parts)
