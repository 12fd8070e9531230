"""Which responses are compared with those already stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frontier.model import Exchange


def may_be_revisit(exchange: Exchange) -> bool:
    """Whether the payload of *exchange* is looked up, and indexed when it is new.

    Status 200 only, as Heritrix and the National Library of Iceland have it:
    the bodies of errors and redirects are small, and to replay one through
    another capture gains nothing. Never the empty payload: all empty payloads
    are the same, and a revisit of one cannot be told from a capture. Never a
    truncated one: its digest is not that of what the server has, and a revisit
    says ``length`` in WARC-Truncated, where the real reason would have to stand
    (WARC 1.1, section 6.7.2).
    """
    return (
        exchange.status == 200
        and exchange.truncated is None
        and bool(exchange.response_body)
    )
