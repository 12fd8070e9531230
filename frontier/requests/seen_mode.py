"""Chooses how the seen test treats a request that the spider made."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from frontier.model import frozen
from frontier.queue.push import FORCE, MARK, TEST

if TYPE_CHECKING:
    from scrapy import Request

    from frontier.session.session import Session
    from frontier.urls.fingerprint import Fingerprints

ONCE = "once"
"""The mode of a start request that is tested by a mark of its own: in a crawl that
began with what others saw, in one that follows links to start URLs, or if it differs
from an earlier start request only in its callback or data."""
START_SALT = b"start"
"""The salt of those marks if the crawl has none."""


@frozen
class StartTest:
    """How the start requests of a crawl are tested."""

    salt: bytes = b""
    """The salt of a crawl that began with what others saw; see `carry_call`."""
    is_seen: bool = True
    """Whether links to start URLs count as seen."""

    @property
    def is_apart(self) -> bool:
        """Whether start requests are tested by marks of their own."""
        return bool(self.salt) or not self.is_seen

    def fingerprint(self, fingerprint: bytes, repeat: int = 0) -> bytes:
        """What that mark is made from, in place of a request's *fingerprint*.

        *repeat* earlier start requests had the same, but other callbacks or data.
        """
        number = b"%d" % repeat if repeat else b""
        return hashlib.sha256(fingerprint + (self.salt or START_SALT) + number).digest()


class SeenModes:
    """The mode of each request: one of `frontier.queue.push`, or `ONCE`."""

    def __init__(self, session: Session, fingerprints: Fingerprints) -> None:
        self._session = session
        self._fingerprints = fingerprints

    def of(self, request: Request) -> str:
        """The mode of *request*."""
        known = self._session.requests.known(request)
        if known.is_start:
            # every node has the seeds, whatever dont_filter says
            return ONCE if self.start.is_apart or known.repeat else TEST
        redirected = request.meta.get("redirect_urls")
        if redirected and (request.dont_filter or self._is_carried_start(request)):
            return MARK
        if request.dont_filter:
            return FORCE
        if redirected and self._same_page(request, str(redirected[-1])):
            return MARK
        return TEST

    @property
    def start(self) -> StartTest:
        """How start requests are tested."""
        session = self._session
        return StartTest(session.start_salt, session.config.seen_start)

    def _is_carried_start(self, request: Request) -> bool:
        """Whether *request* comes from a start request that others may have seen."""
        is_start = request.meta.get("is_start_request")  # Scrapy says so
        return bool(self._session.start_salt and is_start)

    def _same_page(self, request: Request, source: str) -> bool:
        """Whether a redirect leads to another spelling of the URL that it came from.

        Such a target counts as seen but has not been fetched (Heritrix's rule).
        """
        if source == request.url:
            return False
        fingerprint = self._fingerprints.of
        return fingerprint(request.replace(url=source)) == fingerprint(request)
