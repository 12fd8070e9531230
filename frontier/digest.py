"""Payload digests: computed with SHA-256, printed, and read from other tools.

WARC 1.1 (section 5.9) writes a digest as ``algorithm:value`` and leaves the
spelling of the value open. Tools differ: SHA-1 in base32 (Heritrix, warcio),
SHA-256 in hex (Browsertrix), with the label or, in indexes, without it. Two
digests are the same if `parse` returns the same for both; text never decides.
"""

from __future__ import annotations

import base64
import hashlib
import string
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.model import Body

ALGORITHM = "sha256"
"""The algorithm of every digest that this package computes."""

SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
"""Algorithm to the length of its digests, in bytes."""

_BY_HEX = {size * 2: name for name, size in SIZES.items()}
_BY_BASE32 = {-(-size * 8 // 5): name for name, size in SIZES.items()}
_HEX = frozenset("0123456789abcdefABCDEF")
_BASE32 = frozenset(string.ascii_letters + "234567")


class PayloadDigest(NamedTuple):
    """A digest without its spelling."""

    algorithm: str
    """A key of `SIZES`."""
    value: bytes


def sha256_hex(payload: Body) -> str:
    """Return the digest of *payload* as the index spells it: lower-case hex."""
    return hashlib.sha256(payload).hexdigest()


def labelled(hex_digest: str) -> str:
    """Return a bare SHA-256 digest as WARC headers spell it."""
    return f"{ALGORITHM}:{hex_digest}"


EMPTY = sha256_hex(b"")
"""The digest of the empty payload, which never becomes a revisit."""


def parse(text: str) -> PayloadDigest:
    """Return what *text* means: hex or base32, with or without a label.

    Without a label the length tells the algorithm. Only 32 characters have two
    readings: MD5 if all of them are hex, else SHA-1 in base32.

    Raises:
        ValueError: It is not a digest of an algorithm in `SIZES`.
    """
    label, _, value = text.strip().rpartition(":")
    named = label.lower().removeprefix("urn:").replace("-", "")
    for digest in _readings(value.rstrip("=")):
        if named in {"", digest.algorithm}:
            return digest
    raise ValueError(f"not a payload digest: {text!r}")


def _readings(value: str) -> Iterator[PayloadDigest]:
    size = len(value)
    if size in _BY_HEX and _HEX.issuperset(value):
        yield PayloadDigest(_BY_HEX[size], bytes.fromhex(value))
    if size in _BY_BASE32 and _BASE32.issuperset(value):
        padded = value.upper() + "=" * (-size % 8)
        yield PayloadDigest(_BY_BASE32[size], base64.b32decode(padded))
