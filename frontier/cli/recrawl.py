"""``frontier recrawl``: have pages visited now."""

from __future__ import annotations

from frontier.cli.command import Commands, ReportOptions, argument, options
from frontier.cli.output import ExitCode, Shown, bar
from frontier.status.validate import printable


@options
class NowOptions(ReportOptions):
    """Which pages are made due."""

    url: str = argument(
        "URL|PREFIX", "A page; with * at the end, all pages that begin so."
    )


def now(given: NowOptions) -> Shown:
    """Make a page due now, or all pages whose URLs begin with a prefix.

    A URL that no page has exactly, or with * at its end, is taken for a prefix.
    Intervals stay as they are.
    """
    from frontier.recrawl.hasten import hastened
    from frontier.seeds.seeder import tell_holders

    with given.connected() as store, bar("partitions", None) as progress:
        crawl = given.stored(store)
        done, hints = hastened(store, crawl, given.url, progress)
        tell_holders(store, crawl.keys, hints)
    numbers = {"made_due": done.taken, "unreadable": done.unreadable}
    said = {"crawl_id": crawl.keys.crawl_id, **numbers}
    if done.taken:
        return Shown(said)
    none = f"nothing that waits is {printable(given.url[:200])}, or begins so"
    return Shown(said, faults=[none], code=ExitCode.NOT_FOUND)


app = Commands("Visit pages now; crawl status shows what is due.", {"now": now})
