"""Pages of items that could not be fetched: they are asked for again.

A newspaper's feed often has an article before the newspaper has its page. What answers
with an error then, or not at all, is asked for again in later rounds, less and less
often, as long as the feed that named it has it.

What always holds:

1.  A page is known by its fingerprint, as the crawl's rules make it.
2.  A page that was got is in the store no more, from its ack on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from frontier.feeds.round_state import rounds_left_out, unpacked
from frontier.seen.config import pack
from frontier.store.client import Call
from frontier.store.scripts import SITE_REFETCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.store.keys import CrawlKeys

LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class FailedPage:
    """A page that is asked for again."""

    url: str
    feed: str
    """The URL of the feed whose item it is."""
    failures: int = 0
    """In a row; 0 if an operator has asked for it."""
    resume: int = 0
    """The round before which it is not asked for again."""
    reason: str = ""
    """Why it could not be had the last time."""
    asked: bool = False
    """An operator wants it, whether the feed has it or not."""

    def failed(self, reason: str, number: int, wait_s: int) -> FailedPage:
        """This, after round *number* has failed to get it."""
        failures = min(self.failures + 1, 1_000)
        resume = number + 1 + rounds_left_out(failures, wait_s)
        return replace(
            self, failures=failures, resume=resume, reason=reason[:LONGEST_REASON]
        )

    def packed(self) -> bytes:
        """This as the store has it."""
        made: bytes = pack({name: getattr(self, name) for name in self.__slots__})
        return made


def read_page(packed: bytes | None) -> FailedPage | None:
    """The page that the store has as *packed*; ``None`` if it cannot be read."""
    value = unpacked(packed)
    is_one = isinstance(value, dict) and value.keys() == set(FailedPage.__slots__)
    return FailedPage(**value) if is_one else None


def read_pages(fields: Mapping[bytes, bytes]) -> dict[bytes, FailedPage]:
    """The pages of a site, by their fingerprints."""
    found = ((field, read_page(packed)) for field, packed in fields.items())
    return {field: page for field, page in found if page is not None}


def refetch_call(
    keys: CrawlKeys, name: str, fingerprint: bytes, page: FailedPage
) -> Call:
    """The call that has the next round of the site *name* ask for *page*.

    It returns the state of the site, and begins its round if it waits for one.
    """
    names = [keys.sites(), keys.site(name), keys.failed(name)]
    args: list[Any] = [name, fingerprint, page.packed()]
    return Call.to(SITE_REFETCH, names, args)
