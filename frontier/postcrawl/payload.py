"""Length and digests of a record's payload.

The payload of an HTTP response is its entity body (WARC 1.1, section 5.9), without the
transfer coding; the *stored body* is what stands in the record, with it. Of any other
record both are its block.
"""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.dedupe.digest import hashing, in_hex
from frontier.errors import ConfigurationError
from frontier.warc.reader import Source, body_start, unchunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from frontier.warc.reader import Found

ALGORITHMS = ("sha256", "sha1", "md5", "sha512", "blake3")


def require_algorithm(option: str, name: str) -> None:
    """Refuse what *option* says, the *name* of an algorithm that is not here.

    Raises:
        ConfigurationError: It is not.
    """
    if name not in ALGORITHMS:
        raise ConfigurationError(f"{option} {name!r}: one of {ALGORITHMS}")
    if name == "blake3" and not find_spec("blake3"):
        raise ConfigurationError(
            f"{option} {name} needs: pip install 'frontier-crawl[blake3]'"
        )


class Payload(NamedTuple):
    """What a manifest has of it, in the order of its columns."""

    length: int | None = None
    digest: str | None = None
    body: str | None = None
    """Digest of the stored body."""
    claim: str | None = None
    agrees: bool | None = None
    """Whether the record claims one of these; some tools digest the chunks."""
    head_digest: str | None = None
    whole_digest: str | None = None
    fault: str | None = None


def payload_in(
    found: Found, algorithm: str = "sha256", claimed: str = "", *, every: bool = False
) -> Payload:
    """The payload of the record *found*, which is read to its end.

    It is compared with the digest that is *claimed*. With *every* there are digests of
    its head and of all of it, too.

    Raises:
        BadWarc: The file is cut off or damaged in it.
    """
    claim = in_hex(claimed) if claimed else ""
    kind, fault = found.kind, None
    is_revisit = kind == "revisit"
    start, is_chunked = 0, False
    if kind != "request" and found.is_http:
        try:
            start, is_chunked = body_start(found.block)
        except ValueError as error:
            fault = None if is_revisit else str(error)
    names = {algorithm, claim.partition(":")[0] or algorithm}
    if fault or is_revisit:
        names, is_chunked = set(), False
    payload = body = {name: hashing(name) for name in names}
    everything = hashlib.sha256(found.headers.top) if every else None
    size = 0
    if not (is_chunked or everything or found.missing):  # most of them
        block = memoryview(found.block)[start:]
        size = len(block)
        for each in body.values():
            each.update(block)
    else:
        parts: Iterable[bytes] = chain([found.block], found.rest())
        source = Source("", _told({"": everything}, parts) if every else parts)
        source.take(start)
        parts = source.rest()
        if is_chunked:
            body = {name: hashing(name) for name in names}
            parts = unchunked(Source("", _told(body, parts)))
        try:
            for part in _told(payload, parts):
                size += len(part)
        except ValueError as error:
            fault = str(error)
            for _ in source.rest():
                pass
    head = whole = None
    if everything is not None:
        whole = everything.hexdigest()
        head = hashlib.sha256(found.block[:start]).hexdigest()
    if fault or is_revisit:
        return Payload(None, None, None, claim or None, None, head, whole, fault)
    of_payload, of_body = (
        {name: f"{name}:{one.hexdigest()}" for name, one in computed.items()}
        for computed in (payload, body)
    )
    agrees = None
    if claimed:
        agrees = claim in {*of_payload.values(), *of_body.values()}
    digests = of_payload[algorithm], of_body[algorithm]
    return Payload(size, *digests, claim or None, agrees, head, whole)


def _told(computed: Mapping[str, Any], parts: Iterable[bytes]) -> Iterator[bytes]:
    for part in parts:
        for one in computed.values():
            one.update(part)
        yield part
