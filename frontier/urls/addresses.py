"""Classes of network addresses, and how URLs spell them.

What always holds:

1.  Each address has one class, by Python's `ipaddress`, which has IANA's registries of
    special-purpose addresses. What it does not call global is not `PUBLIC`.
2.  An IPv6 address that carries an IPv4 address (mapped, 6to4, NAT64, Teredo) has the
    class of the IPv4 address.
3.  A host is read as `connect(2)` reads it: also with fewer than four parts, in octal,
    in hexadecimal, or as one number.

The addresses of metadata services are those that clouds document: AWS (EC2, ECS, EKS),
Azure, Google, Oracle, Alibaba, Scaleway. They give credentials to whoever asks.
"""

from __future__ import annotations

import re
import socket
import unicodedata
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)

PUBLIC, PRIVATE, LOOPBACK = "public", "private", "loopback"
LINK_LOCAL, METADATA, RESERVED = "link-local", "metadata", "reserved"
SAID = (PUBLIC, PRIVATE, LOOPBACK)
"""The classes that a seed can allow; no seed allows the others."""

_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",  # AWS, Azure, Google, Oracle, DigitalOcean, OpenStack
        "169.254.170.2",  # AWS ECS: credentials of a task
        "169.254.170.23",  # AWS EKS: credentials of a pod
        "169.254.42.42",  # Scaleway
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle, classic
        "168.63.129.16",  # Azure: the host's own service
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS EKS
        "fd00:42::42",  # Scaleway
        "fd20:ce::254",  # Google
    )
)
_NAMES = {
    "localhost": LOOPBACK,
    "localhost.localdomain": LOOPBACK,
    "localhost4": LOOPBACK,
    "localhost6": LOOPBACK,
    "ip6-localhost": LOOPBACK,
    "ip6-loopback": LOOPBACK,
    "metadata.google.internal": METADATA,
    "metadata.goog": METADATA,
    "instance-data.ec2.internal": METADATA,
}
"""Names whose class is known, whoever resolves them."""

_SHARED = (
    IPv4Network("100.64.0.0/10"),  # between a provider and its customers
    IPv6Network("64:ff9b:1::/48"),  # a network's own NAT64
)
"""Private, though Python does not say so."""
_NAT64 = IPv6Network("64:ff9b::/96")
_NUMBER = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)")


def is_loopback(host: str) -> bool:
    """Whether *host*, a name or an address without brackets, is this machine's own.

    >>> is_loopback("LocalHost."), is_loopback("::1"), is_loopback("0177.1")
    (True, True, False)
    """
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def name_of_header(host: str) -> str:
    """The name in a ``Host`` header, without its port and brackets.

    >>> name_of_header("[::1]:80"), name_of_header("a.example")
    ('::1', 'a.example')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def class_of(address: IPv4Address | IPv6Address) -> str:
    """The class of *address*: one of `frontier.settings.values.ADDRESSES`."""
    if address in _METADATA:
        return METADATA
    if isinstance(address, IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            carried = address.teredo[1]
        elif address in _NAT64:
            carried = IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is not None:
            return class_of(carried)
    if address.is_loopback or address.is_unspecified:  # 0.0.0.0 is the machine itself
        return LOOPBACK
    if address.is_link_local:
        return LINK_LOCAL
    if any(address in block for block in _SHARED):
        return PRIVATE
    if address.is_multicast or address.is_reserved:
        return RESERVED
    if address.is_private or (
        isinstance(address, IPv6Address) and address.is_site_local
    ):
        return PRIVATE
    return PUBLIC if address.is_global else RESERVED


def address_in(host: str) -> IPv4Address | IPv6Address | None:
    """The address that *host*, as it is in a URL, spells; ``None`` if it is a name.

    >>> str(address_in("0177.1"))
    '127.0.0.1'
    """
    text = _folded(host)
    if ":" in text:
        try:
            return ip_address(text.strip("[]").partition("%")[0])
        except ValueError:
            return None
    if not text or not _NUMBER.fullmatch(text.rpartition(".")[2]):
        return None
    if not all(_NUMBER.fullmatch(part) for part in text.split(".")):
        return None
    try:
        return IPv4Address(socket.inet_aton(text))
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=10_000)
def class_of_host(host: str) -> str | None:
    """The class of *host*, if it is known without resolving it; else ``None``.

    It is known for every spelling of an address, for ``localhost`` and all names
    below it (RFC 6761, section 6.3), and for names of metadata services.
    """
    address = address_in(host)
    if address is not None:
        return class_of(address)
    name = _folded(host)
    return _NAMES.get(name) or (LOOPBACK if name.endswith(".localhost") else None)


@lru_cache(maxsize=10_000)
def class_of_peer(text: str) -> str:
    """The class of an address as a socket or a resolver gives it."""
    address = address_in(text)
    return RESERVED if address is None else class_of(address)


def _folded(host: str) -> str:
    """*host* in lower case, with ASCII digits and dots, without the last dot."""
    if not host.isascii():
        host = unicodedata.normalize("NFKC", host).replace("\u3002", ".")
    return host.strip().lower().removesuffix(".")
