"""Payload digests: computes them, spells them, and reads those of other tools.

WARC 1.1 (section 5.9) writes a digest as ``algorithm:value`` and leaves the
spelling of the value open. Tools differ: SHA-1 in base32 (Heritrix, warcio),
SHA-256 in hex (Browsertrix), with the label or, in indexes, without it. Two
digests are the same if `parse` returns the same for both; their text is not compared.
"""

from __future__ import annotations

import base64
import hashlib
import re
import string
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple

from frontier.model import Body, slices_of

ALGORITHM = "sha256"
"""The algorithm of payload digests, unless another one is chosen."""

ALGORITHMS = ("sha256", "sha1", "blake3")
"""The algorithms that a crawl may choose."""

_BARE = {"md5": 16, "sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
SIZES = {**_BARE, "blake3": 32}
"""The length of digests in bytes, by algorithm."""

_BY_HEX = {size * 2: name for name, size in _BARE.items()}
_BY_BASE32 = {-(-size * 8 // 5): name for name, size in _BARE.items()}
_HEX = frozenset("0123456789abcdefABCDEF")
_BASE32 = frozenset(string.ascii_letters + "234567")
_USUAL = re.compile(r"(?:sha-?256:)?([0-9a-f]{64})|(?:sha-?1:)?([A-Z2-7]{32})")
_IN_HEX = re.compile("sha256:[0-9a-f]{64}")


class PayloadDigest(NamedTuple):
    """A digest without its spelling."""

    algorithm: str
    """A key of `SIZES`."""
    value: bytes

    def spelled(self) -> str:
        """The digest in the index's spelling, which is unique.

        It has no label; SHA-1 is in base32, like Heritrix's, others in lower-case hex,
        like Browsertrix's. BLAKE3 keeps its label: bare, it would pass for a SHA-256.
        """
        if self.algorithm == "sha1":
            return base64.b32encode(self.value).decode("ascii")
        return self.value.hex() if self.algorithm in _BARE else self.in_hex()

    def in_hex(self) -> str:
        """The digest with its label, in hex, as manifests spell it."""
        return f"{self.algorithm}:{self.value.hex()}"


def hashing(algorithm: str = ALGORITHM) -> Any:
    """A new, empty hash object with the methods of `hashlib`'s.

    Raises:
        ImportError: *algorithm* is ``blake3``, and that package is not installed.
        ValueError: There is no such algorithm.
    """
    if algorithm == "sha256":
        return hashlib.sha256()
    if algorithm == "blake3":
        return import_module("blake3").blake3()
    return hashlib.new(algorithm, usedforsecurity=False)


def digest_of(payload: Body, algorithm: str = ALGORITHM) -> str:
    """The digest of *payload*, in the index's spelling.

    Raises:
        ImportError: See `hashing`.
        ValueError: See `hashing`.
    """
    computed = _computed(algorithm, payload)
    return PayloadDigest(algorithm, computed.digest()).spelled()


def _computed(algorithm: str, *parts: Body) -> Any:
    computed = hashing(algorithm)
    for part in parts:
        for block in slices_of(part):
            computed.update(block)
    return computed


def spelled(text: str) -> str:
    """The digest *text*, in any spelling, turned into the index's spelling.

    Raises:
        ValueError: It is not a digest.
    """
    if found := _USUAL.fullmatch(text):
        return found[1] or found[2]
    return parse(text).spelled()


def in_hex(text: str) -> str:
    """The digest *text* with its label and in hex; empty if it is not a digest."""
    if _IN_HEX.fullmatch(text):
        return text
    try:
        return parse(text).in_hex()
    except ValueError:
        return ""


def labelled(digest: str) -> str:
    """*digest*, in the index's spelling, turned into that of WARC headers.

    Raises:
        ValueError: It is not a digest.
    """
    if ":" in digest:
        return digest
    if len(digest) == len(EMPTY):
        return f"sha256:{digest}"
    return f"{parse(digest).algorithm}:{digest}"


def digest_of_block(*parts: Body) -> str:
    """The digest of a record's block, which is *parts*, as WARC headers have it."""
    return f"{ALGORITHM}:{_computed(ALGORITHM, *parts).hexdigest()}"


EMPTY = digest_of(b"")
"""The digest of the empty payload, which never becomes a revisit."""


def parse(text: str) -> PayloadDigest:
    """The digest that *text* means: hex or base32, with or without a label, or base64.

    Base64 is read only with a label, and if the other spellings do not fit. Without a
    label the length tells the algorithm. Only 32 characters can be read in two ways:
    as MD5 if all of them are hex, else as SHA-1 in base32.

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
