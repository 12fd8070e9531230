"""The identity of a request in a crawl: its fingerprint, and the seen hash of that.

A fingerprint is SHA-1 over a JSON object with method, canonical URL, body and
headers (`scrapy.utils.request.fingerprint`). Under the rules ``scrapy`` the project's
fingerprinter makes it. Under other rules it is made like Scrapy's, of method, canonical
URL and body, but the URL is made canonical by those rules. A URL that the rules refuse,
as their original does, gets Scrapy's fingerprint and is counted.

Making the URL canonical takes most of Scrapy's time. A URL that `_PLAIN` matches is
already canonical, except for its fragment and the order of its parameters; the others
are left to Scrapy. A property test compares the results on URLs of both kinds.
"""

from __future__ import annotations

import hashlib
import logging
import re
from json.encoder import encode_basestring_ascii as _json
from typing import TYPE_CHECKING, Any

import mmh3

from frontier.errors import ConfigurationError, InvalidURL

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

logger = logging.getLogger(__name__)

MARK_BITS = 62
LEAST_MARK = 1 << MARK_BITS
"""The smallest mark; all marks are below twice this."""
LONG = 4096
"""Length of URL and body above which a request is remembered by its fingerprint."""
_HOST = r"[a-z0-9]++(?:[.-][a-z0-9]++)*+"
_PORT = r"[1-5][0-9]{4}|[1-9][0-9]{0,3}+"
"""Up to 59999: w3lib refuses ports above 65535."""
_PATH = r"(?:/(?!\.)[A-Za-z0-9\-._~!$&'()*+,=:@]*+)++"
_PAIR = r"[A-Za-z0-9\-._~+]++=[A-Za-z0-9\-._~+]*+"
_PLAIN = re.compile(
    rf"(https?://{_HOST}(?::(?:{_PORT}))?+{_PATH})"
    rf"(?:\?({_PAIR}(?:&{_PAIR})*+))?+(?:#[!-~]*+)?+"
)


def seen_hash(fingerprint: bytes) -> int:
    """The mark of *fingerprint*: 62 bits of MurmurHash3 plus 2**62.

    So it always has 19 decimal digits: marks written as text sort as the numbers do,
    and Redis keeps them as 64-bit integers.
    """
    high = mmh3.hash64(fingerprint, signed=False)[1]
    return int(high & (LEAST_MARK - 1) | LEAST_MARK)


def canonical(url: str) -> str | None:
    """*url* as w3lib makes it canonical, or ``None`` if only w3lib can tell."""
    match = _PLAIN.fullmatch(url)
    if match is None:
        return None
    base, query = match.groups()
    if query is None:
        return str(base)
    if "&" in query:
        query = "&".join(sorted(query.split("&"), key=lambda pair: pair.split("=")))
    return f"{base}?{query}"


class Fingerprints:
    """Computes fingerprints with Scrapy's *fingerprinter* and the rule set *rules*.

    Raises:
        ConfigurationError: There are no such rules, or they are not Scrapy's and the
            project has a fingerprinter of its own, with its own rules.
    """

    def __init__(self, fingerprinter: Any, rules: str) -> None:
        from scrapy.utils.request import RequestFingerprinter

        from frontier.urls.canon.rulesets import SCRAPY, named

        self._ask: Callable[[Request], bytes] = fingerprinter.fingerprint
        self.by_url = type(fingerprinter) is RequestFingerprinter
        """Whether method, URL and body alone identify a request."""
        self.refused = 0
        """How many URLs the rules refused."""
        self._rules = named(rules)
        self._is_scrapys = rules == SCRAPY
        if not self._is_scrapys and not self.by_url:
            raise ConfigurationError(
                f"FRONTIER_CANON_RULES = {rules!r}: REQUEST_FINGERPRINTER_CLASS is "
                f"{type(fingerprinter).__qualname__}, which has rules of its own"
            )

    def of(self, request: Request) -> bytes:
        """The fingerprint of *request*."""
        if request.meta.get("verbatim_url"):
            return self._ask(request)
        if self.by_url and request.method == "GET" and not request.body:
            quick = self.of_get(request.url)
            if quick is not None:
                return quick
        if self._is_scrapys:
            return self._ask(request)
        try:
            url = self._rules.apply(request.url)
        except InvalidURL as error:
            if not self.refused:
                logger.warning(
                    "FRONTIER_CANON_RULES have no form for %s; Scrapy's fingerprint "
                    "identifies it, and further ones, which are only counted",
                    error,
                )
            self.refused += 1
            return self._ask(request)
        return _made(url, request.method, request.body)

    def key(self, request: Request) -> Any:
        """A quick key for *request* in the memory of this process.

        It is the fingerprint, as bytes, if any other key would be wrong or long.
        """
        url, body = request.url, request.body
        is_long = len(url) + len(body) > LONG
        if is_long or not self.by_url or "verbatim_url" in request.meta:
            return self.of(request)
        if request.method == "GET" and not body:
            return url
        return (request.method, url, body)

    def of_get(self, url: str) -> bytes | None:
        """The fingerprint of a plain GET of *url*; ``None`` if only `of` can tell."""
        if self._is_scrapys:
            plain = canonical(url)
            if plain is None:
                return None
            return _sha1(
                f'{{"body": "", "headers": {{}}, "method": "GET", "url": "{plain}"}}'
            )
        try:
            return _made(self._rules.apply(url), "GET", b"")
        except InvalidURL:
            return None


def _made(url: str, method: str, body: bytes) -> bytes:
    """Scrapy's fingerprint of what has the canonical *url*."""
    return _sha1(
        f'{{"body": "{body.hex()}", "headers": {{}}, "method": {_json(method)}, '
        f'"url": {_json(url)}}}'
    )


def _sha1(text: str) -> bytes:
    return hashlib.sha1(text.encode("ascii"), usedforsecurity=False).digest()
