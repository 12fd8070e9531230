"""What URLs are to a crawl, as the fingerprinter of the project here sees them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings

from frontier.errors import ConfigurationError
from frontier.hashing import mark, partition_of
from frontier.requests import queue_key
from frontier.seeds import fault_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frontier.conf import Config


@dataclass(frozen=True, slots=True)
class Identity:
    """What a GET of a URL is to a crawl."""

    url: str
    """As Scrapy requests it."""
    queue_key: str
    partition: int
    fingerprint: bytes
    mark: int


class Identities:
    """Tells what URLs are to a crawl that has *config*."""

    def __init__(self, config: Config) -> None:
        self._config = config
        settings = get_project_settings()
        made: Any = build_from_crawler(_fingerprinter(settings), _crawler(settings))
        self._fingerprint = made.fingerprint

    def of(self, url: str) -> Identity:
        """What a GET of *url*, with neither headers nor body, is.

        Raises:
            ConfigurationError: It is no URL.
        """
        try:
            request = Request(url)
            fingerprint = self._fingerprint(request)
            key = queue_key(request.url, self._config.queue_key)
        except ValueError as error:
            raise ConfigurationError(f"{url[:200]!r} is no URL: {error}") from None
        partition = partition_of(key, self._config.partitions)
        return Identity(request.url, key, partition, fingerprint, mark(fingerprint))

    def marks_of(self, urls: Iterable[str]) -> dict[int, list[int]]:
        """The marks of *urls*, each once, by partition.

        Raises:
            ConfigurationError: One of them is no URL.
        """
        found: dict[int, dict[int, None]] = {}
        for url in urls:
            identity = self.of(url)
            found.setdefault(identity.partition, {})[identity.mark] = None
        return {partition: list(marks) for partition, marks in found.items()}


def fingerprinter_name() -> str:
    """The class that makes the fingerprints of the project here, as a path."""
    cls = _fingerprinter(get_project_settings())
    return f"{cls.__module__}.{cls.__qualname__}"


def urls_in(target: str) -> list[str]:
    """The URL that *target* is, or those in the file that it names, one a line.

    Raises:
        ConfigurationError: There is no such file, no URL in it, or a line is none.
    """
    lines = [(target[:200], target.strip())]
    if "://" not in target:
        try:
            text = Path(target).read_text("utf-8", errors="replace")
        except OSError as error:
            reason = f"is neither a URL nor a file: {error.strerror}"
            raise ConfigurationError(f"{target[:200]!r} {reason}") from None
        numbered = enumerate(text.removeprefix("\ufeff").splitlines(), 1)
        lines = [(f"{target}:{n}", line.strip()) for n, line in numbered]
    urls: dict[str, None] = {}
    for place, url in lines:
        if not url or url.startswith("#"):
            continue
        if reason := fault_of(url) or "":
            raise ConfigurationError(f"{place}: {url[:200]!r} {reason}")
        urls[url] = None
    if not urls:
        raise ConfigurationError(f"there is no URL in {target}")
    return list(urls)


def _fingerprinter(settings: Any) -> Any:
    return load_object(settings["REQUEST_FINGERPRINTER_CLASS"])


def _crawler(settings: Any) -> Crawler:
    return Crawler(Spider, settings)
