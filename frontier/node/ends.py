"""How a node ends: one table of all ends, for the log, the spider and the exit code."""

from __future__ import annotations

from dataclasses import field
from logging import CRITICAL, ERROR, INFO, WARNING
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from frontier.model import frozen


@frozen
class End:
    """An end of a node, or something about it that is not as it should be."""

    reason: str
    """The spider's reason to close; empty if it closes by itself, or goes on."""
    level: int = 0
    message: str = ""
    code: int = 0
    """The exit code of the process."""
    error: BaseException | None = field(default=None, compare=False)
    """The error that led to it; a second one with the same message is not told."""

    def of(self, error: BaseException | None = None, **facts: Any) -> End:
        """This end, with *facts* filled into its texts, and the *error* behind it."""
        message = self.message.format(error=error, **facts)
        reason = self.reason.format(**facts)
        return End(reason, self.level, message, self.code, error)


FINISHED = End("")
"""Nothing of the crawl is left."""
EMPTY = End(
    "",
    WARNING,
    "the crawl {crawl} has ended and had nothing to fetch: no request was new",
)
NOTHING_FETCHED = End(
    "frontier_nothing_fetched",
    ERROR,
    "the crawl {crawl} has ended without one page: of {queued} requests {dead} were "
    "given up, and the others had no answer or were not sent, as robots.txt forbids "
    "them or they are out of scope; frontier crawl status --crawl {crawl} counts them",
    1,
)
AT_LIMIT = End(
    "{reason}", WARNING, "the crawl {crawl} has ended at its limit: {described}"
)
TOLD = "an operator has told this node to stop: "
ORDERS = {
    order: End(reason, INFO, TOLD + reason)
    for order, reason in (
        ("drain", "frontier_drained"),
        ("remove", "frontier_removed"),
        ("cancel", "frontier_canceled"),
    )
}
"""The ends that an operator may order."""
RUN_OVER = End("frontier_run_over", WARNING, "{error}")
"""The node came after the crawl of its run had ended."""
STOPPED = End("shutdown", INFO, "{error}")
REFUSED = End("frontier_refused", CRITICAL, "{error}", 1)
"""The node cannot take part."""
FAILED = End(
    "frontier_failed", CRITICAL, "the frontier of this node cannot go on: {error}", 1
)
DAMAGED = End(FAILED.reason, CRITICAL, FAILED.message, 7)
"""The node has met a damaged key: starting it again does not help."""
UNDONE = End("", code=1)
"""The crawl is whole, but something else is not; the log says what."""
FEEDS_CUT = End(
    "",
    ERROR,
    "feeds were not stored whole ({count}): the log's lines 'Error storing' name them",
    1,
)
NOT_EXPORTED = End(
    "",
    ERROR,
    "{count} items are in no feed: their export failed, and the log's lines 'Error "
    "caught on signal handler' say why",
    1,
)
START_FAILED = End(
    "",
    WARNING,  # the error itself is logged by Scrapy
    "the spider's start ended with an error ({kind}: {error}): the crawl goes on with "
    "the start requests that it has made before, and lacks the others",
    1,
)

MAX_REASON = 200
"""Characters that are kept of the reason of a `CloseSpider`."""
TIME = "time"
UNKNOWN = "frontier_limit"
"""The reason of a spider whose crawl has ended at a limit that another node has set."""


class Limit(NamedTuple):
    """A limit: where it is set, and why a spider that has reached it closes."""

    setting: str
    reason: str


LIMITS = {
    "pages": Limit("CLOSESPIDER_PAGECOUNT", "closespider_pagecount"),
    "items": Limit("CLOSESPIDER_ITEMCOUNT", "closespider_itemcount"),
    "errors": Limit("CLOSESPIDER_ERRORCOUNT", "closespider_errorcount"),
    "bytes": Limit("FRONTIER_CRAWL_MAX_BYTES", "frontier_limit_bytes"),
    TIME: Limit("CLOSESPIDER_TIMEOUT", "closespider_timeout"),
}


_SPIDER = "spider:"
"""In a limit's name, the prefix of the reason with which a spider ended its crawl."""


def limit_of_spider(reason: str) -> str:
    """The limit of a crawl whose spider has raised `CloseSpider` with *reason*."""
    return f"{_SPIDER}{quote(reason[:MAX_REASON], safe='')} 0"


def _reason_of_spider(limit: str) -> str:
    """The reason with which a spider has ended its crawl; empty if none has."""
    name = limit.partition(" ")[0]
    return unquote(name.removeprefix(_SPIDER)) if name.startswith(_SPIDER) else ""


def reason_of(limit: str) -> str:
    """Why a spider closes when its crawl has ended at *limit*, a name and its value."""
    if reason := _reason_of_spider(limit):
        return reason
    name = limit.partition(" ")[0]
    return LIMITS[name].reason if name in LIMITS else UNKNOWN


def described(limit: str) -> str:
    """*limit*, a name and its value, for people: ``10 pages (CLOSESPIDER_...)``."""
    if reason := _reason_of_spider(limit):
        return f"its spider has raised CloseSpider({reason!r})"
    name, _, value = limit.partition(" ")
    if name not in LIMITS:
        return "one that another node has set"
    what = f"{int(value):,} {name}"
    if name == TIME:
        what = f"{int(value) / 1000:g} s"
    return f"{what} ({LIMITS[name].setting})"
