"""Scope: which URLs belong to a crawl, given its seeds."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from frontier.errors import ConfigurationError
from frontier.urls.split import split

if TYPE_CHECKING:
    from collections.abc import Iterable

    import tldextract

_SLASH = re.compile("/")
KINDS = ("host", "domain", "prefix", "all")


@cache
def _suffixes() -> tldextract.TLDExtract:
    """The Public Suffix List in the package: no look-ups on the network."""
    import tldextract  # a tenth of a second; few crawls need it

    return tldextract.TLDExtract(suffix_list_urls=())


@lru_cache(maxsize=10_000)
def domain_of(host: str, *, private: bool = False) -> str:
    """The registered domain of *host*, or *host* itself if it has none.

    Under a top-level domain that is not on the Public Suffix List it is the last
    two labels: where no rule matches, the list's rule is ``*``. With *private*, each
    name below a domain whose names are given to others, such as github.io, is one too.
    """
    found = _suffixes()(host, include_psl_private_domains=private)
    if found.top_domain_under_public_suffix:
        return str(found.top_domain_under_public_suffix)
    if found.suffix or found.ipv4 or found.ipv6 or ":" in host:
        return host
    return ".".join(host.rsplit(".", 2)[-2:])


def is_public_suffix(domain: str) -> bool:
    """Whether others register names below *domain*: ``co.uk``, ``github.io``."""
    return not _suffixes()(domain, include_psl_private_domains=True).domain


class Scope:
    """The URLs on the hosts or domains of *seeds*, or below their paths, or all.

    *kind* is ``host``, ``domain`` (the registered one), ``prefix`` or ``all``, and
    *seeds* are URLs. A spider whose attribute ``scope`` is a `Scope` is held to it.

    Raises:
        ConfigurationError: There is no such *kind*.
    """

    def __init__(self, kind: str, seeds: Iterable[str]) -> None:
        if kind not in KINDS:
            raise ConfigurationError(
                f"scope {kind!r} does not exist; choose one of {', '.join(KINDS)}"
            )
        self.first_kind = kind
        """The *kind* it was made with."""
        self.become(kind, seeds)

    def become(self, kind: str, seeds: Iterable[str]) -> None:
        """Change to *kind*, one of `KINDS`, of the same *seeds*."""
        self._kind = kind
        self._members = {self._member(seed) for seed in seeds}
        self._longest = max(map(len, self._members), default=0)

    def allows(self, url: str) -> bool:
        """Whether *url* is in scope; only http(s) URLs can be."""
        if not split(url).is_web:
            return False
        if self._kind == "all":
            return True
        if self._kind == "prefix":
            text = _stripped(url)
            found = _SLASH.finditer(text, 0, self._longest)
            return any(text[: slash.end()] in self._members for slash in found)
        return self._member(url) in self._members

    def _member(self, url: str) -> str:
        parts = split(url)
        if self._kind == "domain":
            return domain_of(parts.host)
        if self._kind == "prefix":
            text = _stripped(url)
            return text[: text.rfind("/") + 1] if "/" in text else text + "/"
        return parts.authority


def _stripped(url: str) -> str:
    """*url* without scheme, query and fragment."""
    parts = split(url)
    return parts.authority + (parts.path or "/")
