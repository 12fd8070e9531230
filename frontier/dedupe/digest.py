"""Payload digests: computed, spelled, and read from other tools.

WARC 1.1 (section 5.9) writes a digest as ``algorithm:value`` and leaves the
spelling of the value open. Tools differ: SHA-1 in base32 (Heritrix, warcio),
SHA-256 in hex (Browsertrix), with the label or, in indexes, without it. Two
digests are the same if `parse` returns the same for both; text never decides.
"""

from __future__ import annotations

import base64
import hashlib
import string
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from frontier.model import FileBody, slices_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.model import Body

ALGORITHM = "sha256"
"""The algorithm of payload digests, unless another one is chosen."""

ALGORITHMS = ("sha256", "sha1", "blake3")
"""Those that `digest_of` computes."""

_BARE = {"md5": 16, "sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
SIZES = {**_BARE, "blake3": 32}
"""Algorithm to the length of its digests, in bytes."""

_BY_HEX = {size * 2: name for name, size in _BARE.items()}
_BY_BASE32 = {-(-size * 8 // 5): name for name, size in _BARE.items()}
_HEX = frozenset("0123456789abcdefABCDEF")
_BASE32 = frozenset(string.ascii_letters + "234567")


class PayloadDigest(NamedTuple):
    """A digest without its spelling."""

    algorithm: str
    """A key of `SIZES`."""
    value: bytes


def sha256_hex(payload: Body) -> str:
    """Return the digest of *payload* as the index spells it: lower-case hex."""
    if isinstance(payload, bytes):
        return hashlib.sha256(payload).hexdigest()
    computed = hashlib.sha256()
    for block in slices_of(payload):
        computed.update(block)
    return computed.hexdigest()


def digest_of(payload: Body, algorithm: str = ALGORITHM) -> str:
    """Return the digest of *payload* as the index spells it; see `spelled`.

    Raises:
        ImportError: *algorithm* is ``blake3``, and that package is not installed.
        ValueError: *algorithm* is not one of `ALGORITHMS`.
    """
    if isinstance(payload, FileBody) and algorithm in payload.digests:
        return payload.digests[algorithm]
    if algorithm == "sha256":
        return sha256_hex(payload)
    computed = digester(algorithm)
    computed.update(payload)
    return computed.spelled()


class Digester:
    """A digest that is computed in parts."""

    def __init__(self, algorithm: str, computed: Any) -> None:
        self._algorithm = algorithm
        self._computed = computed

    def update(self, part: Body | memoryview) -> None:
        """Add *part* to what it is the digest of."""
        if not isinstance(part, FileBody):
            self._computed.update(part)
            return
        for block in slices_of(part):
            self._computed.update(block)

    def spelled(self) -> str:
        """The digest of all parts, as the index spells it."""
        return spelled(PayloadDigest(self._algorithm, self._computed.digest()))


def digester(algorithm: str = ALGORITHM) -> Digester:
    """A digest of nothing yet.

    Raises:
        ImportError: *algorithm* is ``blake3``, and that package is not installed.
        ValueError: *algorithm* is not one of `ALGORITHMS`.
    """
    if algorithm == "sha256":
        return Digester(algorithm, hashlib.sha256())
    if algorithm == "sha1":
        return Digester(algorithm, hashlib.sha1(usedforsecurity=False))
    if algorithm == "blake3":
        return Digester(algorithm, import_module("blake3").blake3())
    raise ValueError(f"no algorithm of payload digests: {algorithm!r}")


def spelled(digest: PayloadDigest) -> str:
    """Return *digest* as the index spells it: one spelling for each digest.

    Bare, SHA-1 in base32 as Heritrix has it and others in lower-case hex as
    Browsertrix has them. BLAKE3 keeps its label: bare it would be a SHA-256.
    """
    if digest.algorithm == "sha1":
        return base64.b32encode(digest.value).decode("ascii")
    if digest.algorithm in _BARE:
        return digest.value.hex()
    return f"{digest.algorithm}:{digest.value.hex()}"


def labelled(digest: str) -> str:
    """Return *digest*, spelled as in the index, as WARC headers spell it.

    Raises:
        ValueError: It is not a digest.
    """
    if ":" in digest:
        return digest
    if len(digest) == len(EMPTY):
        return f"sha256:{digest}"
    return f"{parse(digest).algorithm}:{digest}"


EMPTY = sha256_hex(b"")
"""The digest of the empty payload, which never becomes a revisit."""


def parse(text: str) -> PayloadDigest:
    """Return what *text* means: hex or base32, with or without a label, or base64.

    Base64 is read with a label only, and where the others do not fit. Without a label
    the length tells the algorithm. Only 32 characters have two readings: MD5 if all of
    them are hex, else SHA-1 in base32.

    Raises:
        ValueError: It is not a digest of an algorithm in `SIZES`.
    """
    label, _, value = text.strip().rpartition(":")
    named = label.lower().removeprefix("urn:").replace("-", "")
    if named in SIZES and named not in _BARE:
        bare = parse(value)
        if len(bare.value) == SIZES[named]:
            return PayloadDigest(named, bare.value)
    for digest in _readings(value.rstrip("=")):
        if named in {"", digest.algorithm}:
            return digest
    if value.rstrip("=") and named in _BARE:
        with suppress(ValueError):
            raw = base64.b64decode(_padded(value.rstrip("="), 4), validate=True)
            if len(raw) == _BARE[named]:
                return PayloadDigest(named, raw)
    raise ValueError(f"not a payload digest: {text[:100]!r}")


def _readings(value: str) -> Iterator[PayloadDigest]:
    size = len(value)
    if size in _BY_HEX and _HEX.issuperset(value):
        yield PayloadDigest(_BY_HEX[size], bytes.fromhex(value))
    if size in _BY_BASE32 and _BASE32.issuperset(value):
        raw = base64.b32decode(_padded(value.upper(), 8))
        yield PayloadDigest(_BY_BASE32[size], raw)


def _padded(value: str, unit: int) -> str:
    return value + "=" * (-len(value) % unit)
