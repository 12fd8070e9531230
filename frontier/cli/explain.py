"""``frontier explain``: why a URL was, or was not, crawled."""

from __future__ import annotations

from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from frontier.cli.command import (
    WARC_DIR,
    CrawlOptions,
    Output,
    argument,
    command,
    option,
    options,
)
from frontier.cli.output import ExitCode, Shown, bar
from frontier.errors import ConfigurationError, InvalidURL
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.explain.checks import Explanation
    from frontier.explain.in_store import Subject
    from frontier.requests.identities import Identities
    from frontier.settings.config import Config

SHOWN = 200
"""Characters of what was typed that a message shows."""


@options
class ExplainOptions(CrawlOptions, Output):
    """Which URL is explained, and where else there is evidence."""

    url: str = argument("URL")
    logs: list[str] = option(
        (),
        "DIR|URL",
        "Where crawl logs are (default: where the WARC files are).",
    )
    warcs: list[str] = option(
        (),
        "DIR|URL",
        "Where WARC files and indexes are (default: warcs, if it is there).",
    )
    seeds: Path | None = option(
        None, "FILE", "The seeds, one per line, from which to compute the scope."
    )


def explain(given: ExplainOptions) -> Shown:
    """Say why a URL was or was not crawled, with the evidence.

    Reads the store, crawl logs, indexes and WARC files; changes and fetches nothing.
    Names what it could not look at; if that might change the answer, it ends with
    INCOMPLETE.
    """
    from frontier.explain.checks import Known, explain as judged
    from frontier.explain.files import find
    from frontier.explain.in_archive import look_into
    from frontier.explain.in_logs import read_logs
    from frontier.explain.in_store import look
    from frontier.requests.identities import Identities, lines_of

    places = given.warcs or [str(WARC_DIR)] * WARC_DIR.is_dir()
    with given.connected() as store, bar("looking", None) as progress:
        shown = count(1)

        def step() -> None:
            progress(next(shown))

        crawl = given.stored(store)
        subject = _subject(Identities(crawl), given.url.strip(), crawl.config)
        facts = look(store, crawl, subject, step)
        files = find(given.logs, places, crawl.keys, facts.crawl.nodes)
        known = Known(
            subject,
            facts,
            read_logs(files.logs, subject, step),
            look_into(
                subject,
                files.warcs,
                files.indexes,
                step,
            ),
            [line.text for line in lines_of(str(given.seeds))] if given.seeds else (),
            tuple(files.gaps),
        )
    found = judged(known)
    code = ExitCode.OK if found.sure else ExitCode.INCOMPLETE
    return Shown(found.facts(), _shown(found), code=code)


def _subject(identities: Identities, typed: str, config: Config) -> Subject:
    """What *typed* is to the crawl.

    Raises:
        ConfigurationError: It is no URL.
    """
    from frontier.explain.in_store import Subject
    from frontier.urls.canon.rulesets import SUFFIX

    identity = identities.of(typed)
    host = urlsplit(identity.url).hostname
    if not host or " " in unquote(host):
        what = "it has no host: write https://HOST/PATH"
        raise ConfigurationError(f"{typed[:SHOWN]!r} is not a URL: {what}")
    try:
        canonical, refused = identities.canonical(identity.url), ""
    except InvalidURL as error:
        canonical, refused = identity.url, printable(str(error))
    return Subject(
        typed=printable(typed),
        canonical=canonical,
        refused=refused,
        rules=config.canon_rules,
        by_host=not config.canon_rules.endswith(SUFFIX),
        same=identities.tells(identity),
        **asdict(identity),
    )


def _shown(found: Explanation) -> Iterator[str]:
    """The answer, the evidence in the order of a URL's life, and what is missing.

    Lines are not broken, so that what is copied from them is whole.
    """
    lines = [found.answer, f"Next: {found.next}" if found.next else "", ""]
    width = max(len(one.step) for one in found.evidence)
    lines += [f"{o.step:<{width}}  {o.text}  [{o.source}]" for o in found.evidence]
    if found.not_looked_at:
        lines += ["", "Not looked at:"]
    for gap in found.not_looked_at:
        lines.append(f"  {'!' if gap.decides else '-'} {gap.what}; {gap.how}")
    if not found.sure:
        lines += ["", "The answer is not sure: what is marked with ! might change it."]
    return (line.replace("\n", "\ufffd") for line in lines)


app = command(explain, "explain")
