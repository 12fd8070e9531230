"""The first part of a response, where no more of it is wanted.

A robots.txt may have 100 MB, or 200 kB that become 100 MB when its content coding is
undone; only the rules in its first 500 KiB are to be read (RFC 9309, section 2.5).

What always holds:

1.  For a request with `EXCERPT`, no more than that many bytes are taken from the wire,
    and no more are decoded from them. What was taken is archived, as truncated.
2.  A longer body is no error, whatever ``DOWNLOAD_MAXSIZE`` says.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from frontier.scrapy_internals import EXCERPT_FLAG

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

EXCERPT = "frontier_excerpt"
"""Key of ``meta``: how many bytes are wanted."""
_WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""zlib's ``wbits`` by content coding."""


def excerpt_of(request: Request, response: Response) -> Response:
    """*response* with its content coding undone, and no more than *request* wants.

    A coding that is not in `_WINDOWS` is left to Scrapy, with Scrapy's limits.
    """
    wanted = request.meta.get(EXCERPT)
    if not wanted:
        return response
    coding = (response.headers.get(b"Content-Encoding") or b"").strip().lower()
    if coding not in _WINDOWS:
        return response
    body, is_whole = decoded(response.body, _WINDOWS[coding], wanted)
    headers = response.headers.copy()
    del headers[b"Content-Encoding"]
    flags = response.flags if is_whole else [*response.flags, EXCERPT_FLAG]
    return response.replace(body=body, headers=headers, flags=flags)


def decoded(data: bytes, window: int, most: int) -> tuple[bytes, bool]:
    """*data* unpacked by zlib, at most *most* bytes, and whether that is all of it."""
    for bits in (window, -15):  # deflate without its header is common
        unpack = zlib.decompressobj(bits)
        try:
            found = unpack.decompress(data, most + 1)
        except zlib.error:
            continue
        return found[:most], len(found) <= most and unpack.eof
    return data[:most], len(data) <= most  # not packed, whatever its headers say
