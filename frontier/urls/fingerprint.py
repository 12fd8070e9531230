"""What a request is to a crawl: its fingerprint, under the crawl's rules.

Under the rules ``scrapy`` it is what the project's fingerprinter says. Under
others it is made as Scrapy's is, of method, canonical URL and body, with the
URL canonical by those rules. A URL that the rules refuse, as their original
does, is fingerprinted by Scrapy's, and counted.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from typing import TYPE_CHECKING, Any

from scrapy.utils.request import RequestFingerprinter

from frontier.errors import ConfigurationError, InvalidURL
from frontier.urls.canon.rulesets import SCRAPY, named
from frontier.urls.plain_fingerprint import of_plain_get

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy import Request

logger = logging.getLogger(__name__)

_QUIET = re.compile(r"[ !#-\[\]-~]*+")
"""Text that JSON does not escape."""


class Fingerprints:
    """Tells fingerprints by *fingerprinter*, which is Scrapy's, and by *rules*.

    Raises:
        ConfigurationError: There are no such rules, or the project's fingerprinter
            is its own and has rules of its own.
    """

    def __init__(self, fingerprinter: Any, rules: str) -> None:
        self._ask: Callable[[Request], bytes] = fingerprinter.fingerprint
        self.by_url = type(fingerprinter) is RequestFingerprinter
        """Whether method, URL and body alone make a request's identity."""
        self.refused = 0
        """URLs that the rules have no form for."""
        self._rules = named(rules)
        self._is_scrapys = rules == SCRAPY
        if not self._is_scrapys and not self.by_url:
            raise ConfigurationError(
                f"FRONTIER_CANON_RULES = {rules!r}: REQUEST_FINGERPRINTER_CLASS is "
                f"{type(fingerprinter).__qualname__}, which has rules of its own"
            )

    def of(self, request: Request) -> bytes:
        """The fingerprint of *request*."""
        if self._is_scrapys or request.meta.get("verbatim_url"):
            return self._ask(request)
        try:
            url = self._rules.apply(request.url)
        except InvalidURL as error:
            if not self.refused:
                logger.warning(
                    "FRONTIER_CANON_RULES have no form for %s; it is told from others "
                    "by Scrapy's fingerprint, and so are others like it, which are "
                    "counted",
                    error,
                )
            self.refused += 1
            return self._ask(request)
        return _made(request.method, url, request.body.hex())

    def of_get(self, url: str) -> bytes | None:
        """That of a plain GET of *url*; ``None`` if only `of` can tell."""
        if self._is_scrapys:
            return of_plain_get(url)
        try:
            return _made("GET", self._rules.apply(url), "")
        except InvalidURL:
            return None


def _made(method: str, url: str, body: str) -> bytes:
    if method == "GET" and not body and _QUIET.fullmatch(url):
        text = f'{{"body": "", "headers": {{}}, "method": "GET", "url": "{url}"}}'
    else:
        facts = {"body": body, "headers": {}, "method": method, "url": url}
        text = json.dumps(facts, sort_keys=True)
    return hashlib.sha1(text.encode("ascii"), usedforsecurity=False).digest()
