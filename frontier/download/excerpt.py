"""The first part of an answer, where no more of it is wanted.

A robots.txt of 100 MB, or one of 200 kB that becomes 100 MB when its content coding
is undone, has rules in its first 500 KiB, and no more of them are to be read (RFC
9309, section 2.5).

What always holds:

1.  Of a request with `EXCERPT` no more than so many bytes are taken from the wire, and
    no more than so many are made of them. What was taken is archived, as truncated.
2.  It is no error that there is more, whatever ``DOWNLOAD_MAXSIZE`` says.
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
"""Content coding to zlib's `wbits`."""


def excerpt_of(request: Request, response: Response) -> Response:
    """*response*, with no more than *request* wants, and its content coding undone.

    Of a coding that is not known here it is left to Scrapy, with its limits.
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
    """What *data* was before zlib packed it, and whether that is all: *most* bytes."""
    for bits in (window, -15):  # deflate without its header is common
        unpack = zlib.decompressobj(bits)
        try:
            found = unpack.decompress(data, most + 1)
        except zlib.error:
            continue
        return found[:most], len(found) <= most and unpack.eof
    return data[:most], len(data) <= most  # it was not packed, whatever its head says
