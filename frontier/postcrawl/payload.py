"""Length and digests of a record's payload.

The payload of an HTTP response is its entity body (WARC 1.1, section 5.9), without the
transfer coding; the *stored body* is what the record has, with that coding. For any
other record both are its block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.util import find_spec
from itertools import chain
from typing import NamedTuple

from frontier.dedupe.digest import hashing, in_hex
from frontier.errors import ConfigurationError
from frontier.warc.reader import Found, body_of, body_start, telling

ALGORITHMS = ("sha256", "sha1", "blake3", "md5", "sha512")


def require_algorithm(option: str, name: str) -> None:
    """Refuse the value of *option*, a *name*, if it is no algorithm that we have here.

    Raises:
        ConfigurationError: It is unknown, or its package is not installed.
    """
    if name not in ALGORITHMS:
        raise ConfigurationError(f"{option} {name!r}: one of {', '.join(ALGORITHMS)}")
    if name == "blake3" and not find_spec("blake3"):
        raise ConfigurationError(
            f"{option} {name} needs: pip install 'frontier-crawl[blake3]'"
        )


class Payload(NamedTuple):
    """What a manifest says of a payload, in the order of its columns."""

    length: int | None = None
    digest: str | None = None
    body: str | None = None
    """Digest of the stored body."""
    claim: str | None = None
    agrees: bool | None = None
    """Whether *claim* is one of these digests; some tools digest the chunks."""
    head_digest: str | None = None
    whole_digest: str | None = None
    fault: str | None = None


def payload_in(
    found: Found, algorithm: str = "sha256", claimed: str = "", *, every: bool = False
) -> Payload:
    """The payload of the record *found*, which is read to its end.

    It is compared with the digest that is *claimed*. With *every* there are also
    digests of the record's head and of the whole record.

    Raises:
        BadWarc: The file is cut off or damaged in it.
    """
    claim = in_hex(claimed) if claimed else ""
    names = {algorithm, claim.partition(":")[0] or algorithm}
    block, rest = found.block, found.rest()
    start, fault = (0, False), None
    everything = None
    if every:
        everything = hashlib.sha256(found.headers.top + block)
        rest = telling(rest, everything.update)
    of_payload = of_body = _Digests(names)
    try:
        parts: Iterable[bytes] = chain([block], rest)
        if found.kind != "request" and found.is_http:
            start = body_start(block)
            of_body = _Digests(names) if start[1] else of_payload
            parts = body_of(block, rest, of_body.update, start)
        for part in parts if found.kind != "revisit" else ():
            of_payload.update(part)
    except ValueError as error:
        fault = str(error)
    for _ in rest:
        pass
    head = whole = None
    if everything is not None:
        head = hashlib.sha256(block[: start[0]]).hexdigest()
        whole = everything.hexdigest()
    if fault or found.kind == "revisit":
        fault = fault if found.kind != "revisit" else None
        return Payload(None, None, None, claim or None, None, head, whole, fault)
    payload = of_payload.spelled()
    body = payload if of_body is of_payload else of_body.spelled()
    agrees = claim in {*payload.values(), *body.values()} if claimed else None
    digests = payload[algorithm], body[algorithm]
    return Payload(of_payload.size, *digests, claim or None, agrees, head, whole)


class _Digests:
    """Length and digests of the data that `update` gets, part by part."""

    def __init__(self, names: Iterable[str]) -> None:
        self.size = 0
        self._computed = [(name, hashing(name)) for name in names]

    def update(self, part: bytes) -> None:
        self.size += len(part)
        for _, one in self._computed:
            one.update(part)

    def spelled(self) -> dict[str, str]:
        return {name: f"{name}:{one.hexdigest()}" for name, one in self._computed}
