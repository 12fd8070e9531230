"""How a node ends: one table of all ends, for the log, the spider and the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from logging import CRITICAL, ERROR, INFO, WARNING
from typing import Any


@dataclass(frozen=True, slots=True)
class End:
    """An end of a node, or what of it is not as it should be."""

    reason: str
    """With which the spider closes; empty if it does so by itself, or goes on."""
    level: int = 0
    message: str = ""
    code: int = 0
    """With which the process is to exit."""
    error: BaseException | None = None

    def of(self, error: BaseException | None = None, **facts: Any) -> End:
        """This end, with *facts* in what it says, and the *error* that led to it."""
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
"""What an operator may want of a node."""
RUN_OVER = End("frontier_run_over", WARNING, "{error}")
"""It has come when the crawl of its run had ended."""
REFUSED = End("frontier_refused", CRITICAL, "{error}", 1)
"""It cannot take part."""
FAILED = End(
    "frontier_failed", CRITICAL, "the frontier of this node cannot go on: {error}", 1
)
DAMAGED = End(FAILED.reason, CRITICAL, FAILED.message, 7)
"""It has met a damaged key: to start it again does not help."""
UNDONE = End("", code=1)
"""The crawl is whole, and something else is not, as the log tells."""
START_FAILED = End(
    "",
    WARNING,  # the error itself is logged by Scrapy
    "the spider's start ended with an error ({kind}: {error}): the crawl goes on with "
    "the start requests that it has made before, and lacks the others",
    1,
)
