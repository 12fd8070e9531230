"""``frontier crawl seed``: put seeds into a crawl, running or not."""

from __future__ import annotations

from dataclasses import asdict

from frontier.cli.command import ReportOptions, argument, options
from frontier.cli.output import ExitCode, Shown, bar, complain


@options
class SeedOptions(ReportOptions):
    """Which seeds are added to which crawl."""

    targets: list[str] = argument("URL|FILE|-", "- is standard input.")


def seed(given: SeedOptions) -> Shown:
    """Add seeds to an open crawl, whether nodes run or not.

    A seed is a URL, or a JSON object with url, method, headers, body, meta,
    priority, callback and cb_kwargs; a file has one a line. A line that is not
    a seed is named and left out. To finish an interrupted load, run it again.

    Examples:
        frontier crawl seed https://example.org/ seeds.txt
        frontier crawl seed - --crawl news-7 < seeds.txt
    """
    from frontier.seeds.load_list import load_list, require_files

    require_files(given.targets)  # before a server is asked for
    with given.connected() as store, bar("seeds", None) as progress:
        done = load_list(store, given.stored(store), given.targets, complain, progress)
    code = ExitCode.INCOMPLETE if done.left_out else ExitCode.OK
    return Shown(asdict(done), code=code)
