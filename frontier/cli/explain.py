"""``frontier explain``: why a URL was, or was not, crawled."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from frontier.cli.options import WARC_DIR, CrawlOptions, Output, alone
from frontier.cli.output import ExitCode, bar
from frontier.errors import ConfigurationError, InvalidURL
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.cli.project import Identities
    from frontier.explain.in_store import Subject
    from frontier.explain.sources import CrawlFiles
    from frontier.explain.verdict import Explanation
    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*)://|(?:data|about):", re.IGNORECASE)
"""What Scrapy takes for the begin of a URL."""
_HOST = re.compile(
    r"(?:[\w-]+(?:\.[\w-]+)+\.?|localhost|[\w-]+(?=:[0-9])|\[[0-9a-f:.]+\])"
    r"(?::[0-9]*)?(?=[/?#]|\Z)",
    re.IGNORECASE,
)
"""The host that what has no scheme must begin with: two names, or one and a port."""
_SPACE = re.compile(r"\s")

Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--logs",
        metavar="DIR|URL",
        help="Where crawl logs are (default: where the WARC files are).",
    ),
]
Warcs = Annotated[
    list[str] | None,
    typer.Option(
        "--warcs",
        metavar="DIR|URL",
        help="Where WARC files and indexes are (default: warcs, if it is there).",
    ),
]
Seeds = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The seeds, one a line, to compute the scope."),
]


def explain(
    options: CrawlOptions,
    output: Output,
    url: Annotated[str, typer.Argument(metavar="URL", show_default=False)],
    logs: Logs = None,
    warcs: Warcs = None,
    seeds: Seeds = None,
) -> None:
    """Say why a URL was or was not crawled, with the evidence.

    Reads the store, crawl logs, indexes and WARC files; changes and fetches nothing.
    Names what it could not look at; if that might change the answer, it ends with
    INCOMPLETE.
    """
    from frontier.explain.sources import find

    places = warcs if warcs is not None else _default()
    with options.connected() as store:
        crawl = options.crawl(store)
        files = find(logs or [], places, crawl.keys)
        found = _explained(store, crawl, url.strip(), files, _seeds(seeds))
    output.result(found.facts(), _shown(found))
    if not found.sure:
        raise typer.Exit(ExitCode.INCOMPLETE)


def _default() -> list[str]:
    return [str(WARC_DIR)] if WARC_DIR.is_dir() else []


def _seeds(path: Path | None) -> list[str]:
    if path is None:
        return []
    from frontier.cli.project import lines_of

    return [line.url for line in lines_of(str(path))]


def _explained(
    store: BlockingStore,
    crawl: StoredCrawl,
    typed: str,
    files: CrawlFiles,
    seeds: list[str],
) -> Explanation:
    from frontier.cli.project import Identities
    from frontier.explain.in_store import look
    from frontier.explain.sources import ask

    identities = Identities(crawl, store)
    looked = []
    for url in _spellings(typed):
        subject = _subject(identities, typed, url)
        with bar("queued requests", None) as progress:
            facts = look(store, crawl, subject, progress)
        looked.append((subject, facts))
        if facts.places or (facts.answer is not None and facts.answer.seen):
            looked = looked[-1:]
            break
    found = []
    for subject, facts in looked:  # more than one only if the store knows none
        found.append(ask(crawl, subject, facts, files, seeds, bar))
        if found[-1].recorded:
            break
    return found[-1] if found[-1].recorded else found[0]


def _spellings(typed: str) -> list[str]:
    """*typed* as a URL; without a scheme it may be one of two.

    Raises:
        ConfigurationError: It is no URL, nor what follows a scheme.
    """
    from frontier.cli.project import SHOWN
    from frontier.seeds.read import SCHEMES

    shown = f"{typed[:SHOWN]!r} is not a URL"
    scheme = _SCHEME.match(typed)
    if scheme is None:
        rest = typed.removeprefix("//")
        if not _HOST.match(rest):
            raise ConfigurationError(f"{shown}: it names no host; write https://HOST/")
        return [f"https://{rest}", f"http://{rest}"]
    host = re.split(r"[/?#]", typed[scheme.end() :], maxsplit=1)[0].rpartition("@")[2]
    if scheme[1].lower() in SCHEMES and (not host or _SPACE.search(host)):
        what = "white space in the name of its host" if host else "no host"
        raise ConfigurationError(f"{shown}: it has {what}")
    return [typed]


def _subject(identities: Identities, typed: str, url: str) -> Subject:
    """What *url* is to the crawl.

    Raises:
        ConfigurationError: It is no URL.
    """
    from frontier.explain.in_store import Subject

    identity = identities.of(url)
    try:
        canonical, refused = identities.canonical(identity.url), ""
    except InvalidURL as error:
        canonical, refused = identity.url, str(error)
    return Subject(
        typed=printable(typed),
        url=identity.url,
        canonical=canonical,
        refused=printable(refused),
        queue_key=identity.queue_key,
        partition=identity.partition,
        fingerprint=identity.fingerprint,
        mark=identity.mark,
        same=identities.tells(identity),
    )


def _shown(found: Explanation) -> Iterator[RenderableType]:
    """The answer, the evidence in the order of a URL's life, and what is missing.

    A line is not broken, so that what is copied from it is whole.
    """
    yield Text(_one_line(found.answer))
    if found.next:
        yield Text(_one_line(f"Next: {found.next}"))
    yield Text()
    width = max(len(one.step) for one in found.evidence)
    for one in found.evidence:
        said = f"{one.step:<{width}}  {one.text}  [{one.source}]"
        yield Text(_one_line(said))
    if found.gaps:
        yield Text()
        yield Text("Not looked at:")
    for gap in found.gaps:
        mark = "!" if gap.decides else "-"
        yield Text(_one_line(f"  {mark} {gap.what}; {gap.how}"))
    if not found.sure:
        yield Text()
        yield Text("The answer is not sure: what is marked with ! might change it.")


def _one_line(text: str) -> str:
    """*text* without anything that a terminal would obey, and as one line."""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


app = alone(explain)
