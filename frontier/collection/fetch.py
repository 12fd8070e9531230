"""Files at http and https URLs, of which only the parts that are read travel.

What always holds:

1.  Nothing but http and https is followed, also not by a redirect.
2.  An answer has a limit, in bytes and in time without any.
3.  A request that failed is repeated `ATTEMPTS` times, with a pause.
"""

from __future__ import annotations

import http.client
import io
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit

from frontier.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 30.0
"""Seconds without any bytes."""
ATTEMPTS = 3
PAUSE = 1.0
"""Seconds before the second attempt; twice as many before the third."""
BLOCK = 1 << 18
MAX_FILE = 1 << 40
"""Bytes of a file whose server cannot give parts of it; it is fetched whole."""
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")
_FAILED = (OSError, http.client.HTTPException, ValueError)


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> urllib.request.Request | None:
        _require_http(str(args[5]))
        return super().redirect_request(*args)


def _opener() -> urllib.request.OpenerDirector:
    """An opener that knows no ``file:`` and no ``ftp:``."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def read_url(url: str, limit: int) -> bytes:
    """The whole answer to a GET of *url*, of at most *limit* bytes.

    Raises:
        SourceBroken: There is none, or it is longer.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            with _get(url) as answer:
                data: bytes = answer.read(limit + 1)
        except _FAILED as error:
            _fail_or_pause(url, error, left)
        else:
            break
    if len(data) > limit:
        raise SourceBroken(url, f"it has more than {limit:,} bytes")
    return data


@contextmanager
def fetched(url: str) -> Iterator[tuple[IO[bytes], int]]:
    """The file at *url*, which can be read at any place, and its size.

    Raises:
        SourceBroken: There is none.
    """
    size = _size_of(url)
    if size is not None:
        with io.BufferedReader(_Parts(url, size), BLOCK) as file:
            yield file, size
        return
    with tempfile.TemporaryFile(prefix="frontier-") as copy:
        yield copy, _fetch_whole(url, copy)


class _Parts(io.RawIOBase):
    """A file of which each read is a request for a range of it."""

    def __init__(self, url: str, size: int) -> None:
        self._url = url
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}
        self._at = max(0, start[whence] + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        count = min(len(buffer), self._size - self._at)
        if count <= 0:
            return 0
        data = self._read(self._at, count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _read(self, start: int, count: int) -> bytes:
        wanted = f"bytes={start}-{start + count - 1}"
        for left in reversed(range(ATTEMPTS)):
            try:
                with _get(self._url, wanted) as answer:
                    if answer.status != http.client.PARTIAL_CONTENT:
                        raise ValueError("the server gives no parts any more")
                    data: bytes = answer.read(count)
                if len(data) < count:
                    raise OSError("the answer is cut off")
            except _FAILED as error:
                _fail_or_pause(self._url, error, left)
            else:
                return data
        raise AssertionError


def _size_of(url: str) -> int | None:
    """The size of the file at *url*; ``None`` if its server gives no parts."""
    for left in reversed(range(ATTEMPTS)):
        try:
            with _get(url, "bytes=0-0") as answer:
                found = _RANGE.fullmatch(answer.headers.get("Content-Range") or "")
                partial = answer.status == http.client.PARTIAL_CONTENT
            return int(found[3]) if found and partial else None
        except _FAILED as error:
            _fail_or_pause(url, error, left)
    raise AssertionError


def _fetch_whole(url: str, copy: IO[bytes]) -> int:
    for left in reversed(range(ATTEMPTS)):
        copy.seek(0)
        copy.truncate()
        try:
            with _get(url) as answer:
                told = int(answer.headers.get("Content-Length") or -1)
                if told > MAX_FILE:
                    raise SourceBroken(url, f"it has {told:,} bytes")
                shutil.copyfileobj(answer, copy, BLOCK)
                if told >= 0 and copy.tell() != told:
                    raise OSError("the answer is cut off")
        except _FAILED as error:
            _fail_or_pause(url, error, left)
        else:
            size = copy.tell()
            copy.seek(0)
            return size
    raise AssertionError


def _get(url: str, wanted: str = "") -> Any:
    _require_http(url)
    headers = {"User-Agent": "frontier", "Accept-Encoding": "identity"}
    if wanted:
        headers["Range"] = wanted
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (it is http)
    return _opener().open(request, timeout=TIMEOUT)


def _require_http(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SourceBroken(url, "only http and https URLs are fetched")


def _fail_or_pause(url: str, error: Exception, left: int) -> None:
    """Wait before another attempt, or give up if none is *left*."""
    final = isinstance(error, urllib.error.HTTPError) and 400 <= error.code < 500
    if not left or final:
        raise SourceBroken(url, f"it cannot be fetched: {error}") from None
    time.sleep(PAUSE * (ATTEMPTS - left))
