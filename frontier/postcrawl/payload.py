"""Length and digests of a record's payload.

The payload of an HTTP response is its entity body (WARC 1.1, section 5.9), without the
transfer coding; the *stored body* is what stands in the record, with it. Of any other
record both are its block.
"""

from __future__ import annotations

import hashlib
from itertools import chain
from typing import TYPE_CHECKING, Any

from frontier.dedupe.digest import PayloadDigest, hashing, parse
from frontier.warc.reader import Source, body_start, unchunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from frontier.warc.reader import Found

ALGORITHMS = ("sha256", "sha1", "md5", "sha512", "blake3")


class Payload:
    """The payload of the record *found*, which is read to its end."""

    def __init__(
        self, found: Found, algorithm: str, *, trusts: bool = False, every: bool = False
    ) -> None:
        """With *trusts* what the record claims is not computed, where it is clear.

        With *every* there are digests of its head and of all of it, too.

        Raises:
            BadWarc: The file is cut off or damaged in it.
        """
        self.size = 0
        self.fault = ""
        self._claimed = found.headers.get("warc-payload-digest")
        is_named = self._claimed.startswith(f"{algorithm}:")
        self._said: PayloadDigest | None = None
        if self._claimed and (trusts or not is_named):
            self._said = parsed(self._claimed)
        self._algorithm = algorithm
        start, kind = 0, found.kind
        self._is_revisit = kind == "revisit"
        is_chunked = False
        if kind != "request" and found.is_http:
            try:
                start, is_chunked = body_start(found.block)
            except ValueError as error:
                self.fault = "" if self._is_revisit else str(error)
        is_chunked &= not self._is_revisit
        self._trusted = self._said if trusts and not is_chunked else None
        names = [algorithm, self._said.algorithm] if self._said else [algorithm]
        if self._trusted or self.fault or self._is_revisit:
            names = []
        self._payload = _computing(names)
        self._body = _computing(names) if is_chunked else self._payload
        self._whole = None
        if every:
            self._whole = hashlib.sha256(found.headers.top)
            self._whole.update(found.block)
        self._head = hashlib.sha256(found.block[:start]).hexdigest() if every else ""
        self._read(found, start, is_chunked=is_chunked)

    def _read(self, found: Found, start: int, *, is_chunked: bool) -> None:
        if not is_chunked:
            self._add([memoryview(found.block)[start:]])
            if found.missing:
                self._add(self._noted(found.rest()))
            return
        source = Source("", chain([found.block], self._noted(found.rest())))
        source.take(start)
        try:
            self._add(unchunked(Source("", self._stored(source))))
        except ValueError as error:
            self.fault = str(error)
            for _ in source.rest():
                pass

    def _noted(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        for part in parts:
            if self._whole is not None:
                self._whole.update(part)
            yield part

    def _stored(self, source: Source) -> Iterator[bytes]:
        for part in source.rest():
            for one in self._body.values():
                one.update(part)
            yield part

    def _add(self, parts: Iterable[bytes | memoryview]) -> None:
        for part in parts:
            self.size += len(part)
            for one in self._payload.values():
                one.update(part)

    def columns(self) -> dict[str, Any]:
        """What a manifest has of it, by the names of the columns."""
        columns: dict[str, Any] = {}
        if self._whole is not None:
            columns["whole_digest"] = self._whole.hexdigest()
            columns["head_digest"] = self._head
        if self.fault:
            columns["fault"] = self.fault
        if self.fault or self._is_revisit:
            return columns
        columns["payload_length"] = self.size
        if self._trusted:
            digest = self._trusted.in_hex()
            return columns | {"payload_digest": digest, "body_digest": digest}
        name = self._algorithm
        payload = {one: each.digest() for one, each in self._payload.items()}
        body = payload
        if self._body is not self._payload:
            body = {one: each.digest() for one, each in self._body.items()}
        columns["payload_digest"] = PayloadDigest(name, payload[name]).in_hex()
        columns["body_digest"] = PayloadDigest(name, body[name]).in_hex()
        if self._claimed:
            is_same = self._claimed == columns["payload_digest"]
            columns["agrees"] = is_same or self._agrees(payload, body)
        return columns

    def _agrees(self, payload: Mapping[str, bytes], body: Mapping[str, bytes]) -> bool:
        """Whether the record claims one of these; some tools digest the chunks."""
        said = self._said or parsed(self._claimed)
        if said is None:
            return False
        return said.value in (payload[said.algorithm], body[said.algorithm])


def parsed(claimed: str) -> PayloadDigest | None:
    """What a record claims; ``None`` if that is no digest."""
    try:
        return parse(claimed)
    except ValueError:
        return None


def _computing(names: Iterable[str]) -> dict[str, Any]:
    return {name: hashing(name) for name in names}
