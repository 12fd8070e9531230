"""What a TLS connection says of itself, in the words of WARC-Protocol."""

from __future__ import annotations

import re
from typing import Any

_VERSION = re.compile(r"(TLS|SSL)v(\d)(?:\.(\d))?")
_SUITE = re.compile(
    r"(?:(?P<exchange>ECDHE|DHE)-(?P<proof>RSA|ECDSA|DSS)-)?"
    r"(?P<cipher>AES128|AES256|CHACHA20-POLY1305)"
    r"(?:-(?P<mode>GCM))?(?:-(?P<hash>SHA\d*))?"
)
_CIPHERS = {
    "AES128": "AES_128",
    "AES256": "AES_256",
    "CHACHA20-POLY1305": "CHACHA20_POLY1305",
}


def tls_of(transport: Any) -> tuple[tuple[str, ...], str | None]:
    """Return the values of WARC-Protocol and WARC-Cipher-Suite that TLS gives.

    Nothing of a transport without TLS, and no suite of which the standard name
    cannot be told.
    """
    handle: Any = getattr(transport, "getHandle", lambda: None)()
    version = getattr(handle, "get_protocol_version_name", None)
    if version is None:
        return (), None
    return (protocol(version()),), suite(handle.get_cipher_name() or "")


def protocol(version: str) -> str:
    """``TLSv1.2`` as WARC-Protocol has it, ``tls/1.2``."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return "tls"
    return f"{found[1].lower()}/{found[2]}.{found[3] or 0}"


def suite(name: str) -> str | None:
    """The name that IANA gives the suite that OpenSSL calls *name*, if it is known.

    >>> suite("ECDHE-RSA-AES128-GCM-SHA256")
    'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'
    """
    if name.startswith("TLS_"):  # of TLS 1.3, where the names are the same
        return name
    found = _SUITE.fullmatch(name)
    if found is None:
        return None
    proof = f"{found['exchange']}_{found['proof']}" if found["exchange"] else "RSA"
    cipher = _CIPHERS[found["cipher"]]
    if not cipher.startswith("CHACHA20"):
        cipher += f"_{found['mode'] or 'CBC'}"
    return f"TLS_{proof}_WITH_{cipher}_{found['hash'] or 'SHA256'}"
