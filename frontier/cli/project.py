"""Which Scrapy project the nodes of ``frontier crawl run`` are started in.

Our own, which has the spider ``site`` and comes with this package, or the one that
``scrapy crawl`` would find: by ``scrapy.cfg``, ``SCRAPY_PROJECT`` and
``SCRAPY_SETTINGS_MODULE``.

What URLs are to a crawl, as the fingerprinter of the project here sees them.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import build_from_crawler, load_object
from scrapy.utils.project import get_project_settings

from frontier.cluster.shared_settings import CANONICALIZATION, FINGERPRINTER
from frontier.cluster.shared_settings import fingerprinter_name as name_in
from frontier.errors import ConfigurationError, FrontierError
from frontier.files import open_input
from frontier.queue.item import MAX_BYTES
from frontier.seeds.read import Line, fault_of, lines
from frontier.status.validate import printable
from frontier.urls.canon.rulesets import label_of, named
from frontier.urls.fingerprint import Fingerprints, seen_hash
from frontier.urls.partition import SPREAD, QueueAddresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from frontier.seen.seen_set import StoredCrawl


MARK = "scrapy.cfg"
CLUSTER = "cluster"
"""The variant of our own project's settings that is for a server of one's own."""
LINE = 'ADDONS = {"frontier.addon.Addon": 100}'


FEEDS = "FEEDS"
"""Scrapy's setting of the files that items are written to."""


@dataclass(frozen=True, slots=True)
class Project:
    """Where nodes are started, and what settings they find there."""

    directory: Path
    """Of the nodes; what is relative in their settings is relative to it."""
    is_ours: bool
    settings: Mapping[str, Any]
    """Those of the user's own project that say where crawls and archives are."""

    @classmethod
    def bundled(cls) -> Project:
        """The project with the spider ``site``, which this package is a part of.

        Raises:
            ConfigurationError: The package was installed without it.
        """
        package = Path(__file__).resolve().parents[1]
        for directory in (package / "project", package.parent):  # a wheel, a checkout
            if (directory / MARK).is_file() and (directory / "spiders").is_dir():
                return cls(directory, is_ours=True, settings={})
        raise ConfigurationError(
            f"the built-in spider is missing: {package / 'project'} has no {MARK}; "
            "install frontier-crawl again"
        )

    @classmethod
    def of(cls, spider: str, given: Mapping[str, str]) -> Project:
        """The project of the current directory, which has *spider*.

        *given* are settings that override the project's and the spider's own.

        Raises:
            ConfigurationError: There is no project, no such spider, the project does
                not use the frontier, or its settings cannot work.
        """
        settings = crawler_of(spider, given).settings
        chosen = {
            name: settings[name]
            for name in settings
            if (name.startswith(("FRONTIER_", "REDIS_")) or name == FEEDS)
            and settings[name] is not None
        }
        return cls(Path.cwd(), is_ours=False, settings=chosen)

    def environment_for(self, redis_url: str) -> dict[str, str]:
        """What tells the project's nodes about the server at *redis_url*.

        Not an argument: a URL may have a password, and arguments are public.
        """
        if not redis_url:
            return {}
        from frontier.store.address import ENVIRONMENT

        ours = {"SCRAPY_PROJECT": CLUSTER} if self.is_ours else {}
        return {ENVIRONMENT: redis_url, **ours}


def crawler_of(spider: str, given: Mapping[str, str]) -> Crawler:
    """A crawler of *spider*, with the settings that our add-on makes of a node's.

    Nothing runs in it. *given* are settings that override the project's and the
    spider's own.

    Raises:
        ConfigurationError: As of `Project.of`.
    """
    from scrapy.utils.conf import build_component_list
    from scrapy.utils.project import inside_project

    from frontier.addon import Addon

    if not inside_project():
        raise ConfigurationError(
            f"there is no Scrapy project here to look for the spider {spider} in: no "
            f"{MARK} in this directory or above it"
        )
    try:
        crawler = _bare_crawler(spider, given)
        addons = build_component_list(crawler.settings["ADDONS"])
        chosen = [addon for addon in map(load_object, addons) if addon is Addon]
    except FrontierError:
        raise
    except Exception as error:
        # The project's own code may raise anything.
        raise ConfigurationError(
            f"the Scrapy project cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not chosen:
        raise ConfigurationError(
            "the project does not use the frontier: its ADDONS are "
            f"{_addons_of(crawler)}, and it needs {LINE}"
        )
    Addon.from_crawler(crawler).update_settings(crawler.settings)
    return crawler


def _addons_of(crawler: Crawler) -> str:
    """``ADDONS``, and the last line of the project's settings that sets it."""
    settings = crawler.settings
    value = printable(f"{dict(settings['ADDONS'])}")[:SHOWN]
    if settings.getpriority("ADDONS") != SETTINGS_PRIORITIES["project"]:
        return value
    module = sys.modules.get(os.environ.get("SCRAPY_SETTINGS_MODULE", ""))
    path = getattr(module, "__file__", None)
    try:
        lines = Path(path or "").read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return value
    found = [n for n, line in enumerate(lines, 1) if re.match(r"ADDONS\b", line)]
    if not found:
        return value
    before = f", which overrides line {found[-2]}" if found[1:] else ""
    return f"{value} (line {found[-1]} of {path}{before})"


def _bare_crawler(spider: str, given: Mapping[str, str]) -> Crawler:
    from scrapy.addons import AddonManager
    from scrapy.spiderloader import get_spider_loader

    settings = get_project_settings()
    settings.setdict(dict(given), priority="cmdline")
    AddonManager.load_pre_crawler_settings(settings)
    loader = get_spider_loader(settings)
    if spider not in loader.list():
        known = ", ".join(sorted(loader.list())) or "none"
        raise ConfigurationError(f"the project has no spider {spider}; it has {known}")
    return Crawler(loader.load(spider), settings)


SHOWN = 200
"""Characters of a URL in a message."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURT = re.compile(
    r"(?:[a-z][a-z0-9+.-]*:(?://)?)?\(.*|[\w-]+(?:,[\w-]+)+,?(?:[:)/].*)?",
    re.IGNORECASE,
)
_WILD_HOST = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#]*\*", re.IGNORECASE)


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
    """Tells what URLs are to *crawl*.

    Raises:
        ConfigurationError: Its nodes make other fingerprints than the project here,
            or its queue key is a callable that the project has not.
    """

    def __init__(self, crawl: StoredCrawl) -> None:
        require_project_of(crawl)
        self._is_spread = crawl.config.queue_key in SPREAD
        self._places = QueueAddresses(crawl.config)
        settings = get_project_settings()
        cls = load_object(settings[FINGERPRINTER])
        made: Any = build_from_crawler(cls, Crawler(Spider, settings))
        self._fingerprints = Fingerprints(made, crawl.config.canon_rules)
        self._fingerprint = self._fingerprints.of
        self._rules = named(crawl.config.canon_rules)

    def fingerprint(self, request: Request) -> bytes:
        """What *request* is to the crawl."""
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
            found = self._places.of(request.url, fingerprint)
        except ValueError as error:
            at = f"{place}: " if place else ""
            # That of a URL that cannot be encoded would have the URL in it.
            reason = printable(str(error))
            raise ConfigurationError(
                f"{at}{url[:SHOWN]!r} is not a URL: {reason}"
            ) from None
        key = fingerprint.hex() if self._is_spread else found.queue_key
        return Identity(
            request.url, key, found.partition, fingerprint, seen_hash(fingerprint)
        )

    def canonical(self, url: str) -> str:
        """The form by which the crawl's rules tell *url* from others.

        Raises:
            InvalidURL: They have none for it.
        """
        return self._rules.apply(url)

    def tells(self, identity: Identity) -> Callable[[str], bool]:
        """What says whether a GET of a URL, however it is spelled, is *identity*."""
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
    """Raise unless URLs are to the project here what they are to *crawl*.

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
    """The URL that *target* is, or those in the file that it names, one a line.

    Raises:
        ConfigurationError: There is no such file, no URL in it, or a line is not a URL.
    """
    if "://" in target or _SURT.fullmatch(target):
        given: Iterable[Line] = [Line("", target.strip())]
    else:
        given = urls_in(target)
    urls: dict[str, Line] = {}
    for line in given:
        if not line.text or line.text.startswith("#"):
            continue
        if reason := _fault(line.text):
            at = f"{line.place}: " if line.place else ""
            raise ConfigurationError(f"{at}{line.text[:SHOWN]!r} {reason}")
        urls.setdefault(line.text, line)
    if not urls:
        raise ConfigurationError(f"there is no URL in {target[:SHOWN]}")
    return list(urls.values())


def urls_in(name: str) -> Iterator[Line]:
    """The lines of the file *name*, none of which is kept longer than it may be.

    Raises:
        ConfigurationError: It is not a file, or a line is too long or not UTF-8.
    """
    shown = name[:SHOWN]
    try:
        with open_input(Path(name)) as file:
            for line in lines(shown, file):
                if line.fault:
                    raise ConfigurationError(f"{line.place}: {line.fault}")
                yield line
    except OSError as error:
        reason = f"is neither a URL nor a file: {error.strerror}"
        raise ConfigurationError(f"{shown!r} {reason}") from None
    except ValueError as error:  # a name that no file can have
        raise ConfigurationError(f"{shown!r} is not a file name: {error}") from None


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
