"""Tells what URLs are to a crawl, by the fingerprinter of the project here.

Commands read URLs from what was typed, and from files with one on each line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings

from frontier.cluster.crawls import BY_FINGERPRINT
from frontier.cluster.shared_settings import (
    CANONICALIZATION,
    FINGERPRINTER,
    fingerprinter_name as name_in,
)
from frontier.errors import ConfigurationError
from frontier.model import frozen
from frontier.queue.item import MAX_BYTES
from frontier.seeds.read import SHOWN, Line, fault_of, lines_of_file
from frontier.status.validate import printable
from frontier.urls.canon.rulesets import label_of, named
from frontier.urls.fingerprint import Fingerprints, seen_hash
from frontier.urls.partition import QueueAddress, QueueAddresses, partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from frontier.seen.seen_set import StoredCrawl

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURT = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:(?://)?)?\(.*|[\w-]+(?:,[\w-]+)+,?(?:[:)/].*)?",
    re.IGNORECASE,
)
_WILD_HOST = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#]*\*", re.IGNORECASE)


@frozen
class Identity:
    """What a GET of a URL is to a crawl."""

    url: str
    """As Scrapy requests it."""
    queue_key: str
    partition: int
    fingerprint: bytes
    mark: int


class Identities:
    """Tells what URLs are to *crawl*.

    Raises:
        ConfigurationError: Its nodes make other fingerprints than the project here,
            or its queue key is a callable that the project does not have.
    """

    def __init__(self, crawl: StoredCrawl) -> None:
        require_project_of(crawl)
        self._partitions = crawl.config.partitions
        self._places: QueueAddresses | None = None
        if crawl.config.queue_key != BY_FINGERPRINT:
            self._places = QueueAddresses(crawl.config)
        settings = get_project_settings()
        cls = load_object(settings[FINGERPRINTER])
        made: Any = build_from_crawler(cls, Crawler(Spider, settings))
        self._fingerprints = Fingerprints(made, crawl.config.canon_rules)
        self._fingerprint = self._fingerprints.of
        self._rules = named(crawl.config.canon_rules)

    def fingerprint(self, request: Request) -> bytes:
        """The fingerprint that *request* has in the crawl."""
        return self._fingerprint(request)

    def of(self, url: str, place: str = "") -> Identity:
        """What a GET of *url*, with neither headers nor body, is.

        *place* is where it was found, for the message.

        Raises:
            ConfigurationError: It is not a URL.
        """
        try:
            request = Request(_checked(url))
            fingerprint = self._fingerprint(request)
            found = self._place(request.url, fingerprint)
        except ValueError as error:
            at = f"{place}: " if place else ""
            # The error about a URL that cannot be encoded has the URL in it.
            reason = printable(str(error))
            if "://" not in url:
                reason = "write https://HOST/PATH"
            raise ConfigurationError(
                f"{at}{url[:SHOWN]!r} is not a URL: {reason}"
            ) from None
        return Identity(request.url, *found, fingerprint, seen_hash(fingerprint))

    def _place(self, url: str, fingerprint: bytes) -> QueueAddress:
        if self._places is not None:
            return self._places.of(url, fingerprint)
        key = fingerprint.hex()
        return QueueAddress(key, partition_of(key, self._partitions))

    def canonical(self, url: str) -> str:
        """The form by which the crawl's rules tell *url* from others.

        Raises:
            InvalidURL: They have none for it.
        """
        return self._rules.apply(url)

    def tells(self, identity: Identity) -> Callable[[str], bool]:
        """A function that says if a GET of a URL, in any spelling, is *identity*."""
        quick = self._fingerprints.of_get if self._fingerprints.by_url else None

        def is_it(url: str) -> bool:
            try:
                found = quick(url) if quick is not None else None
                found = found or self._fingerprint(Request(url))
            except ValueError:
                return False
            return found == identity.fingerprint

        return is_it

    def marks_of(
        self, lines: Iterable[Line], progress: Callable[[int], None] = lambda _: None
    ) -> dict[int, list[int]]:
        """The marks of *lines*, each once, by partition.

        *progress* is told how many URLs are done.

        Raises:
            ConfigurationError: One of them is not a URL.
        """
        found: dict[int, dict[int, None]] = {}
        for number, line in enumerate(lines, 1):
            identity = self.of(line.text, line.place)
            found.setdefault(identity.partition, {})[identity.mark] = None
            if number % 1_000 == 0:
                progress(number)
        return {partition: list(marks) for partition, marks in found.items()}


def fingerprinter_name() -> str:
    """The class that makes the fingerprints of the project here, as a path.

    Raises:
        ConfigurationError: There is no such class.
    """
    return name_in(dict(get_project_settings()))


def require_project_of(crawl: StoredCrawl) -> None:
    """Raise unless the project here makes the same of URLs as *crawl* does.

    Raises:
        ConfigurationError: It has another fingerprinter, or other rules.
    """
    rules = label_of(crawl.config.canon_rules)
    here = {FINGERPRINTER: fingerprinter_name(), CANONICALIZATION: rules}
    for name, value in here.items():
        if (stored := crawl.shape.get(name)) != value:
            raise ConfigurationError(
                f"{name} = {value!r}, but the crawl {crawl.keys.crawl_id} was created "
                f"with {stored!r}; run this command in the project of the crawl"
            )


def lines_of(target: str) -> list[Line]:
    """The URL that *target* is, or those in the file that it names, one per line.

    Raises:
        ConfigurationError: There is no such file, no URL in it, or a line is not a URL.
    """
    if "://" in target or _SURT.fullmatch(target):
        given: Iterable[Line] = [Line("", target.strip())]
    else:
        given = urls_in(target)
    urls: dict[str, Line] = {}
    for line in given:
        if reason := _fault(line.text):
            at = f"{line.place}: " if line.place else ""
            raise ConfigurationError(f"{at}{line.text[:SHOWN]!r} {reason}")
        urls.setdefault(line.text, line)
    if not urls:
        raise ConfigurationError(f"there is no URL in {target[:SHOWN]}")
    return list(urls.values())


def urls_in(name: str) -> Iterator[Line]:
    """The lines of the file *name*.

    Raises:
        ConfigurationError: It is not a file, or a line is too long or not UTF-8.
    """
    for line in lines_of_file(name):
        if line.fault:
            raise ConfigurationError(f"{line.place}: {line.fault}")
        yield line


def _fault(url: str) -> str | None:
    if _SURT.fullmatch(url) or _WILD_HOST.match(url) or url.endswith("*"):
        return (
            "is a prefix, and the store keeps hashes, which do not tell what their "
            "URLs begin with; list whole URLs (and write %2A for an asterisk)"
        )
    try:
        _checked(url)
    except ValueError as error:
        return f"is not a URL: {error}"
    return fault_of(url) or None


def _checked(url: str) -> str:
    if len(url) > MAX_BYTES:
        raise ValueError(f"it takes more than {MAX_BYTES:,} bytes")
    if match := _CONTROL.search(url):
        raise ValueError(f"it has the control character {match[0]!r} in it")
    try:
        url.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("it is not UTF-8") from None
    return url
