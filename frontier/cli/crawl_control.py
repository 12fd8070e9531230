"""``frontier crawl pause`` and what else changes a crawl while it runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from frontier.cli.command import (
    Consent,
    CrawlOptions,
    ReportOptions,
    argument,
    confirm,
    flag,
    option,
    options,
)
from frontier.cli.output import Shown, bar, table
from frontier.errors import ConfigurationError
from frontier.status.text import first_of, local_moment as when

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.cluster.controls import Change
    from frontier.seen.seen_set import StoredCrawl
    from frontier.status.controls import Reach
    from frontier.store.client import BlockingStore
    from frontier.store.keys import CrawlKeys
    from frontier.urls.exclusions import Rule


def pause(given: ReportOptions) -> Shown:
    """Stop all nodes of a crawl from sending until `resume`.

    Requests in flight are finished. Nodes keep what they hold, and nodes that come
    later are paused, too. The crawl does not end, and a limit of its time does not
    count the pause.
    """
    from frontier.cluster.controls import PAUSED, Change

    return _switched(given, Change(PAUSED), "paused")


def resume(given: ReportOptions) -> Shown:
    """Let all nodes of a paused crawl go on."""
    from frontier.cluster.controls import RESUMED, Change

    return _switched(given, Change(RESUMED), "resumed")


def _switched(given: ReportOptions, wanted: Change, done: str) -> Shown:
    from frontier.status.snapshot import read_crawl

    with given.connected() as store:
        keys = given.keys(store)
        changed, reached = put_into_force(store, keys, wanted)
        by = read_crawl(store, keys).controls.paused
    text = f"{keys.crawl_id} is {done}{_where(reached)}"
    if not changed:
        text = f"{keys.crawl_id} was not paused"
        if by is not None:
            text = f"{keys.crawl_id} is paused since {when(by.at_ms)} by {by.who}"
    return _shown(keys, {"changed": changed}, reached, text)


@options
class RetryOptions(ReportOptions):
    """Which hosts are asked again."""

    hosts: list[str] = argument("HOST", default=())
    every: bool = flag("All hosts that are backing off.", "--all")


def retry(given: RetryOptions) -> Shown:
    """Ask hosts that are left alone again now.

    A host that still does not answer is left alone again, as after a first failure.

    Examples:
        frontier crawl retry www.example.org
        frontier crawl retry --all
    """
    from frontier.cluster.controls import ALL_HOSTS, RETRIED, Change
    from frontier.queue.hosts import forget
    from frontier.urls.exclusions import HOST, rule_of

    if bool(given.hosts) == given.every:
        raise ConfigurationError("retry needs either hosts or --all")
    named = [rule_of(HOST, host).value for host in given.hosts]
    with given.connected() as store:
        crawl = given.stored(store)
        keys, config = crawl.keys, crawl.config
        forgotten = forget(store, keys, config, named)
        for what in named or [ALL_HOSTS]:
            _, reached = put_into_force(store, keys, Change(RETRIED, what))
    text = f"{forgotten:,} hosts that were left alone are asked again{_where(reached)}"
    return _shown(keys, {"forgotten": forgotten}, reached, text)


@options
class ExcludeOptions(Consent, CrawlOptions):
    """What is excluded, or not any more."""

    host: str = argument("HOST", default="")
    prefix: str = option("", "URL", "All URLs that begin with this one.")
    pattern: str = option("", "REGEX", "All URLs that match this expression.")
    remove: bool = flag("Remove this exclusion.")


def exclude(given: ExcludeOptions) -> Shown:
    """Stop fetching a host or some URLs; skip those that are queued.

    Without --yes it changes nothing, and says how many queued requests would be
    skipped. Without arguments it lists the exclusions. After Ctrl-C, run it again to go
    on.

    Examples:
        frontier crawl exclude www.example.org --yes
        frontier crawl exclude --prefix https://example.org/calendar/ --yes
    """
    from frontier.cluster.controls import include

    chosen = _chosen(given.host, given.prefix, given.pattern)
    with given.connected() as store:
        if chosen is None:
            return _excluded(store, given.keys(store))
        if not given.remove:
            return _exclude(given, store, chosen)
        keys = given.keys(store)
        changed, reached = put_into_force(store, keys, include(chosen))
    text, notes = f"{chosen} was not excluded", list[str]()
    if changed:
        text = f"{chosen} is not excluded any more{_where(reached)}"
        notes.append(
            "skipped URLs still count as seen; frontier seen forget makes a URL new "
            "again"
        )
    return _shown(keys, {"changed": changed}, reached, text, notes)


def _chosen(host: str, prefix: str, pattern: str) -> Rule | None:
    from frontier.urls.exclusions import HOST, PATTERN, PREFIX, rule_of

    given = [
        (kind, value)
        for kind, value in ((HOST, host), (PREFIX, prefix), (PATTERN, pattern))
        if value
    ]
    if len(given) > 1:
        raise ConfigurationError("give a host, or --prefix, or --pattern: one of them")
    return rule_of(*given[0]) if given else None


def _excluded(store: BlockingStore, keys: CrawlKeys) -> Shown:
    from frontier.status.snapshot import read_crawl
    from frontier.status.views import ControlsView

    found = ControlsView.of(read_crawl(store, keys).controls).excluded
    rows = [(one.kind, one.value, when(one.at_ms), one.who) for one in found]
    return Shown(
        {"crawl_id": keys.crawl_id, "excluded": [asdict(one) for one in found]},
        [table("excluded", "", "since", "by", rows=rows)]
        if rows
        else ["nothing is excluded"],
    )


def _exclude(given: ExcludeOptions, store: BlockingStore, rule: Rule) -> Shown:
    from frontier.cluster.controls import (
        SKIPPED,
        Change,
        change,
        exclude as excluding,
        operator,
    )
    from frontier.status.snapshot import read_crawl

    crawl = given.stored(store)
    keys = crawl.keys
    facts = {"kind": rule.kind, "value": rule.value}
    if not given.yes:
        wanted = read_crawl(store, keys).controls
        wanted.exclusions.add(rule)  # raises if it cannot be added
        found = _purge(store, crawl, rule, dry=True)
        confirm(
            given,
            {"store": store.where, "crawl_id": keys.crawl_id, **facts, **found},
            f"Exclude {rule}? What is found would not be fetched, nor any link to it.",
            "nothing is done yet; add --yes to exclude it",
        )
    _, reached = put_into_force(store, keys, excluding(rule))
    done = _purge(store, crawl, rule, dry=False)
    skipped = f"{done['skipped']:,} queued requests"
    if done["skipped"]:
        said = f"{skipped} of {rule}"
        change(store, keys, Change(SKIPPED, said), operator())
    text = f"{rule} is excluded{_where(reached)}; {skipped} skipped"
    return _shown(keys, facts | done, reached, text)


def _purge(
    store: BlockingStore, crawl: StoredCrawl, rule: Rule, *, dry: bool
) -> dict[str, int]:
    """Look for what *rule* excludes, and unless *dry* take it out; how many of each."""
    from frontier.queue.purge import purge
    from frontier.urls.exclusions import Exclusions

    of = (crawl.keys, crawl.config, Exclusions([rule]))
    with bar("partitions", crawl.config.partitions) as progress:
        done = purge(store, *of, dry=dry, progress=progress)
    return {"queued": done.queued, "found": done.found, "skipped": done.taken}


@options
class SetOptions(ReportOptions):
    """Which settings are changed, and for which host."""

    pairs: list[str] = argument("NAME=VALUE", default=())
    host: str = option("", "HOST", "For this host alone.")
    unset: list[str] = option(
        (), "NAME", "Return to each node's own value; may be repeated."
    )
    every: bool = flag("Show the values in force and where they come from.", "--list")


def change(given: SetOptions) -> Shown:
    """Change settings of a crawl that runs, on all its nodes.

    What can be set: delay and concurrency, of all hosts or of one; the limits of the
    crawl and of hosts; the scope; the limits on traps.

    Examples:
        frontier crawl set DOWNLOAD_DELAY=5 --host www.example.org
        frontier crawl set CLOSESPIDER_PAGECOUNT=100000
        frontier crawl set --list
    """
    from frontier.cluster.controls import UNSET, settings

    if bool(given.pairs or given.unset) == given.every:
        raise ConfigurationError("give NAME=VALUE, or --unset NAME, or --list")
    with given.connected() as store:
        if given.every:
            return _listed(store, given.keys(store))
        crawl = given.stored(store)
        wanted = settings(crawl, given.pairs, given.unset, given.host)
        changed, reached = put_into_force(store, crawl.keys, wanted)
    now = "each node's own again" if wanted.verb == UNSET else "in force"
    text = f"{wanted.what}: {now if changed else 'was so already'}{_where(reached)}"
    return _shown(crawl.keys, {"changed": changed}, reached, text)


def _listed(store: BlockingStore, keys: CrawlKeys) -> Shown:
    """Show each setting that can be changed, its value, and where that is from."""
    from frontier.settings.live import LIVE, SCOPE
    from frontier.status.snapshot import read_crawl
    from frontier.status.views import ControlsView

    crawl = read_crawl(store, keys)
    changed, nodes = ControlsView.of(crawl.controls).changed, crawl.nodes
    there = sorted(nodes.beats.keys() & nodes.figures.keys())
    own = {name: nodes.figures[name].own for name in there}
    rows, facts = [], []
    for name, live in LIVE.items():
        ours = [one for one in changed if one.name == name]
        for one in ours:
            by = f"{one.who}, {when(one.at_ms)}"
            rows.append((name, one.host or "all", one.value, by))
        none = "-" if name == SCOPE else "0"  # a spider may have no scope
        each = {node: found.get(name, none) for node, found in own.items()}
        if all(one.host for one in ours):
            values = ", ".join(sorted({*each.values()}))
            rows.append((name, "", values or "?", "each node's own"))
        as_json = [asdict(one) for one in ours]
        facts.append(
            {"name": name, "about": live.about, "changed": as_json, "own": each}
        )
    return Shown(
        {"crawl_id": keys.crawl_id, "settings": facts},
        [table("setting", "host", "is", "from", rows=rows)],
    )


def put_into_force(
    store: BlockingStore, keys: CrawlKeys, wanted: Change
) -> tuple[bool, Reach]:
    """Make the *wanted* change, and wait until the nodes have it in force.

    Return whether it changed anything, and which nodes have it in force.

    Raises:
        UnknownCrawl: There is no such crawl.
        OtherSchema: Another version of this package made it.
        CrawlClosed: It has ended.
    """
    from frontier.cluster.controls import change, operator
    from frontier.status.controls import reach
    from frontier.status.snapshot import read_crawl

    read_crawl(store, keys)  # refuses a crawl of another version
    version, changed = change(store, keys, wanted, operator())
    return changed, reach(store, keys, version)


def _where(reached: Reach) -> str:
    count = len(reached.nodes) + len(reached.lacking)
    if not count and reached.ended:
        return "; the crawl has ended meanwhile"
    if not count:
        return "; no node runs now, and it holds for those that come"
    return f" on {len(reached.nodes):,} of {count:,} nodes"


def _shown(
    keys: CrawlKeys,
    facts: dict[str, Any],
    reached: Reach,
    text: str,
    notes: Sequence[str] = (),
) -> Shown:
    """What was done, with a fault if a node on the map has not confirmed it."""
    faults = list[str]()
    if reached.lacking:
        faults.append(
            f"no word from {first_of(reached.lacking, 5)}: each does it with its next "
            "heartbeat, unless it is dead; frontier crawl status --nodes shows which "
            "are"
        )
    said = {"crawl_id": keys.crawl_id, **facts, **asdict(reached)}
    return Shown(said, [text], notes, faults)
