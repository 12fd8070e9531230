"""One CDX server: how it is asked, what it answers, and when it is left alone.

pywb and wabac answer ``output=json`` with a JSON object on each line; the Wayback
Machine, OpenWayback and OutbackCDX with one array of rows after a row of names. Servers
that do not know ``output`` answer with lines of CDXJ or CDX. All of these are read and
none is trusted: what is not a capture is skipped.

What always holds:

1.  A request takes about the time-out at most, at most `MAX_ANSWER` bytes of an answer
    are read, and redirects are not followed.
2.  After `FAILURES` failures in a row, or if it says that it is overloaded, a server is
    left alone for `PAUSE` seconds, then for longer each time, up to `LONGEST_PAUSE`.
3.  User and password in the address are sent to the server. No log or record has them,
    or the address's query.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import re
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from frontier.cdx.lines import REVISIT, Capture, NoCapture, read_row
from frontier.model import frozen
from frontier.warc.content_coding import inflated
from frontier.warc.reader import GZIP
from frontier.warc.records import software, warc_date


def answers(data: bytes) -> Iterator[Capture]:
    """Yield the captures in *data*, the whole body of an answer.

    Raises:
        ValueError: It is in none of the forms.
    """
    for row in _rows(data):
        with suppress(NoCapture):
            found = read_row(row)
            if found is not None and found.digest:
                yield found


def _rows(data: bytes) -> Iterator[Any]:
    """The lines of *data*, or the objects and arrays in it."""
    if not data.lstrip().startswith(b"["):
        yield from data.strip().splitlines()
        return
    names: list[str] = []  # OutbackCDX sends none
    try:
        rows = json.loads(data)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
    for number, row in enumerate(rows):
        if number == 0 and isinstance(row, list) and "digest" in row:
            names = list(map(str, row))
        elif names and isinstance(row, list):
            yield dict(zip(names, row, strict=False))
        else:
            yield row


logger = logging.getLogger(__name__)

CONNECTIONS = 16
"""Connections that are kept to one server."""
FAILURES = 3
"""Failures in a row after which a server is left alone for `PAUSE` seconds."""
PAUSE = 60.0
LONGEST_PAUSE = 960.0
"""Seconds that later pauses grow to while the server gives no usable answer."""
MAX_ANSWER = 1 << 20
"""The most bytes of an answer that are read; some 3,000 captures of a URL."""
LIMIT = 200
"""Captures of a URL to ask for, those closest in time."""
_NONE = re.compile(rb"no captures? found", re.IGNORECASE)
"""What Common Crawl's server and older pywb say, with a 404, if there are none."""
_FAILURES = (urllib3.exceptions.HTTPError, OSError, ValueError, zlib.error)


@frozen
class Wanted:
    """A payload whose original is looked for."""

    url: str
    """In the form of WARC-Target-URI."""
    digests: tuple[str, ...]
    """In the index's spelling, by different algorithms; the crawl's own first."""
    started: float
    """When its capture started, in seconds since the Unix epoch."""


class NoAnswer(Exception):
    """A request got no usable answer."""


class Overloaded(NoAnswer):
    """The server asks for a pause."""


class CdxServer:
    """One CDX server; used by several threads."""

    def __init__(self, address: str, timeout: float) -> None:
        parts = urlsplit(address)
        credentials, _, host = parts.netloc.rpartition("@")
        self._base = urlunsplit((parts.scheme, host, parts.path, "", ""))
        self._query = parse_qsl(parts.query, keep_blank_values=True)
        self.name = self._base
        """Its address, without parts that may be secret."""
        self._headers = {"User-Agent": software(), "Accept-Encoding": "gzip"}
        if credentials:
            user = unquote(credentials).encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(user).decode()}"
        self._timeout = timeout
        self._pool = pool_for(parts.scheme, parts.hostname or "", timeout)
        self._lock = threading.Lock()  # guards what follows
        self._failures = 0
        self._rests = 0
        self._resting_until = 0.0
        self._told = False

    def is_resting(self) -> bool:
        """Whether it is left alone for now."""
        return time.monotonic() < self._resting_until

    def captures(self, wanted: Wanted) -> list[Capture]:
        """The captures that it has of the URL of *wanted*.

        Raises:
            NoAnswer: It did not answer, or its answer cannot be read.
        """
        if self.is_resting():
            raise NoAnswer("it failed, and is left alone for now")
        try:
            found = list(answers(self._get(self._target(wanted))))
        except (*_FAILURES, NoAnswer) as error:
            self._failed(error)
            raise NoAnswer(str(error)) from None
        self._succeeded()
        return found

    def _failed(self, error: Exception) -> None:
        """Count a failure; if it is one too many, leave the server alone and warn."""
        with self._lock:
            self._failures += 1
            if self._failures < FAILURES and not isinstance(error, Overloaded):
                return
            if time.monotonic() < self._resting_until:
                return  # this request was under way when the pause began
            pause = min(PAUSE * 2 ** min(self._rests, 9), LONGEST_PAUSE)
            self._rests += 1
            self._resting_until = time.monotonic() + pause
        logger.warning(
            "the CDX server %s is not asked for %d s, and payloads are stored in "
            "full meanwhile: %s",
            self.name,
            pause,
            str(error)[:200],
        )

    def tell_algorithm(self, theirs: str, ours: str) -> None:
        """Warn once that its digests are of other algorithms than the crawl's."""
        with self._lock:
            told, self._told = self._told, True
        if not told:
            logger.warning(
                "the CDX server %s has digests of %s, and this crawl %s: nothing is "
                "found there; see FRONTIER_REVISIT_DIGESTS",
                self.name,
                theirs,
                ours,
            )

    def _succeeded(self) -> None:
        with self._lock:
            again, self._failures, self._rests = self._rests > 0, 0, 0
            self._resting_until = 0.0
        if again:
            logger.info("the CDX server %s answers again", self.name)

    def _target(self, wanted: Wanted) -> str:
        """The address of the query: parameters in the setting override ours."""
        named = {name for name, _ in self._query}
        query = [(n, v.replace("{digest}", wanted.digests[0])) for n, v in self._query]
        query = [(n, v) for n, v in query if n != "url"]
        date = warc_date(wanted.started)
        rest = {
            # Without it, a URL that ends with an asterisk would be a prefix.
            "matchType": "exact",
            "output": "json",
            # Not `mime`: pywb knows both names, other servers only this one.
            "filter": f"!mimetype:{REVISIT}",
        }
        if named.isdisjoint(("sort", "closest", "limit")):
            closest = "".join(filter(str.isdigit, date))[:14]
            rest |= {"sort": "closest", "closest": closest, "limit": str(LIMIT)}
        query += [(n, v) for n, v in rest.items() if n not in named]
        asked = urlencode([("url", wanted.url), *query], quote_via=quote)
        return f"{self._base}?{asked}"

    def _get(self, target: str) -> bytes:
        ends = time.monotonic() + self._timeout
        answer = self._pool.request(
            "GET",
            target,
            headers=self._headers,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )
        data = b""
        with closing(answer):  # which is not used again unless it was read to its end
            if answer.status in {429, 503}:
                raise Overloaded(f"it answers {answer.status}")
            if answer.status not in {200, 404}:
                raise NoAnswer(f"it answers {answer.status}")
            while block := answer.read1(1 << 16):
                data += block
                if len(data) > MAX_ANSWER:
                    raise NoAnswer(f"its answer has more than {MAX_ANSWER:,} bytes")
                if time.monotonic() > ends:
                    raise NoAnswer(f"its answer takes longer than {self._timeout:g} s")
        if data.startswith(GZIP):  # as from Wayback's servers, whatever they are asked
            new = functools.partial(zlib.decompressobj, 31)
            data = inflated(data, new, MAX_ANSWER, is_joined=True)
        if answer.status == 200:
            return data
        if _NONE.search(data):
            return b""
        raise NoAnswer("it answers 404")


def pool_for(scheme: str, host: str, timeout: float) -> urllib3.PoolManager:
    """Connections to *host*, through the environment's proxy if there is one."""
    options: dict[str, Any] = {
        "timeout": urllib3.Timeout(connect=timeout, read=timeout),
        "retries": False,
        "maxsize": CONNECTIONS,
    }
    proxy = getproxies().get(scheme)
    if proxy and not proxy_bypass(host):
        secret = urllib3.util.parse_url(proxy).auth
        if secret:
            made = urllib3.util.make_headers(proxy_basic_auth=unquote(secret))
            options["proxy_headers"] = made
        return urllib3.ProxyManager(proxy, **options)
    return urllib3.PoolManager(**options)
