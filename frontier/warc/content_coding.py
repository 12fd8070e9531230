"""Content codings, undone before a payload is stored, where that is wanted.

A body that cannot be decoded is stored as received: if its coding is unknown, if it
is damaged or cut, or if it grows beyond `LIMIT`. Its head is then as received, too, so
head and body always agree.
"""

from __future__ import annotations

import re
import sys
import zlib
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.model import Body, Exchange

LIMIT = 256 * 1024 * 1024
"""Most bytes that a body is decoded to."""

_BLOCK = 1 << 16
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
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
    if coding in {b"gzip", b"x-gzip"}:
        return _inflate(body, 31)
    if coding == b"deflate":
        try:
            return _inflate(body, 15)
        except _Undecodable:
            return _inflate(body, -15)  # without the header that the RFC demands
    if coding == b"br":
        return _brotli(body)
    if coding == b"zstd":
        return _zstd(body)
    raise _Undecodable


def _inflate(body: Body, bits: int) -> bytes:
    inflate = zlib.decompressobj(bits)

    def step(data: bytes) -> bytes:
        return inflate.decompress(inflate.unconsumed_tail + data, _BLOCK)

    try:
        found = _all(body, step)
    except zlib.error:
        raise _Undecodable from None
    if not inflate.eof or inflate.unused_data:
        raise _Undecodable
    return found


def _brotli(body: Body) -> bytes:
    try:
        brotli: Any = import_module("brotli")
    except ImportError:
        raise _Undecodable from None
    decompressor = brotli.Decompressor()

    def step(data: bytes) -> bytes:
        if decompressor.is_finished() and not data:
            return b""
        made: bytes = decompressor.process(data, output_buffer_limit=_BLOCK)
        return made

    try:
        found = _all(body, step)
    except (brotli.error, TypeError):  # TypeError: too old to have a limit
        raise _Undecodable from None
    if not decompressor.is_finished():
        raise _Undecodable
    return found


def _zstd(body: Body) -> bytes:
    """Frame after frame (RFC 8878, section 3)."""
    zstd: Any = import_module(_ZSTD)  # Scrapy needs it, too
    frame: Any = zstd.ZstdDecompressor()

    def step(data: bytes) -> bytes:
        nonlocal frame
        while True:
            if frame.eof:
                data = frame.unused_data + data
                if not data:
                    return b""
                frame = zstd.ZstdDecompressor()
            made: bytes = frame.decompress(data, _BLOCK)
            if made or not frame.eof or not frame.unused_data:
                return made
            data = b""  # the frame has nothing in it

    try:
        found = _all(body, step)
    except zstd.ZstdError:
        raise _Undecodable from None
    if not frame.eof or frame.unused_data:
        raise _Undecodable
    return found


def _all(body: Body, step: Callable[[bytes], bytes]) -> bytes:
    """What *step* makes of *body*: some bytes of the next data, until it gives none."""
    parts, size = [], 0
    for start in range(0, len(body), _BLOCK):
        data = bytes(body[start : start + _BLOCK])
        while part := step(data):
            data = b""
            parts.append(part)
            size += len(part)
            if size > LIMIT:
                raise _Undecodable
    return b"".join(parts)
