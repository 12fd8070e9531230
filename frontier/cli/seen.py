"""``frontier seen``: plan the seen test, carry over what it knows, forget URLs."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from frontier.cli.command import (
    Commands,
    Consent,
    CrawlOptions,
    Output,
    ReportOptions,
    argument,
    confirm,
    option,
    options,
)
from frontier.cli.output import Shown, bar, say, table
from frontier.errors import ConfigurationError, NotFound
from frontier.status.text import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from frontier.seen.plan import Forecast
    from frontier.seen.seen_set import StoredCrawl
    from frontier.store.client import BlockingStore

CHOICES = ("recent,set", "recent,bloom,set", "recent,bloom")
"""Tiers that a plan compares when none are named."""


@options
class PlanOptions(Output):
    """What a seen test is planned for."""

    urls: str = option(..., "N", "How many URLs the crawl will see: 2000, 50M, 1.5G.")
    error: float = option(
        0.001,
        "RATE",
        "Share of new URLs that Bloom may take for seen.",
        within=(1e-15, 0.999),
    )
    tiers: str = option("", "TIERS", "As FRONTIER_SEEN_TIERS (default: compare some).")
    partitions: int = option(1024, "N", "As FRONTIER_PARTITIONS.", within=(1, 16384))


def plan(given: PlanOptions) -> Shown:
    """Show what a seen test takes, what it loses, and its settings."""
    from frontier.seen.plan import RECENT_BYTES, count_of, forecast, planned

    count, error, partitions = count_of(given.urls), given.error, given.partitions
    choices = (given.tiers,) if given.tiers else CHOICES
    configs = [planned(count, error, choice, partitions) for choice in choices]
    rows = [
        forecast(config, count, number)
        for config in configs
        for number in dict.fromkeys((partitions, 1))
    ]
    first = configs[0]
    recent = RECENT_BYTES * min(first.seen_recent_size, count)
    settings = {
        "FRONTIER_SEEN_TIERS": ",".join(first.seen_tiers),
        "FRONTIER_BLOOM_CAPACITY": count,
        "FRONTIER_BLOOM_ERROR_RATE": error,
        "FRONTIER_PARTITIONS": partitions,
    }
    said = {
        "urls": count,
        "error_rate": error,
        "plans": [asdict(row) for row in rows],
        "recent_bytes_of_a_node": recent,
        "settings": settings,
    }
    head = Text(f"{count:,} URLs, a Bloom error below {error:g}\n")
    notes = (
        f"\nURLs:   alike in all {partitions} partitions, or all of them in one\n"
        f"recent: {size(recent)} on each node\n"
        "lost:   new URLs called seen; where there is a set, it alone decides\n"
        "\n# settings.py"
    )
    lines = (f"{name} = {value!r}" for name, value in settings.items())
    return Shown(said, [head, _table_of(rows), notes, *lines])


def _table_of(rows: Sequence[Forecast]) -> Table:
    return table(
        "tiers",
        "URLs",
        ">store",
        ">bytes a URL",
        ">lost",
        rows=[
            (
                ",".join(row.tiers),
                "in one" if row.one_partition else "alike",
                size(row.store_bytes),
                f"{row.bytes_per_url:.1f}",
                f"{row.lost:.2g}",
            )
            for row in rows
        ],
    )


@options
class ForgetOptions(Consent, CrawlOptions):
    """Which URLs a crawl forgets."""

    target: str = argument("URL|FILE")


def forget(given: ForgetOptions) -> Shown:
    """Make URLs new again: one, or those of a file, one a line.

    Shows its plan first; add --yes to do it. Takes whole URLs only: the store keeps
    hashes, and a hash does not tell what its URL begins with.
    """
    from frontier.requests.identities import Identities, lines_of
    from frontier.seen.seen_set import CANNOT_FORGET

    lines = lines_of(given.target)
    with given.connected() as store:
        crawl = _crawl(store, given)
        name = crawl.keys.crawl_id
        if "set" not in crawl.config.seen_tiers:
            raise ConfigurationError(CANNOT_FORGET.format(name))
        identities = Identities(crawl)
        with bar("fingerprints", len(lines)) as progress:
            by_partition = identities.marks_of(lines, progress)
        said = {"store": store.where, "crawl_id": name, "urls": len(lines)}
        confirm(
            given,
            said,
            f"Forget {len(lines):,} URLs of {name}?",
            "nothing was forgotten; to forget them add --yes",
        )
        said |= _forget(store, crawl, by_partition)
    notes = []
    if said["forgotten"] and "recent" in crawl.config.seen_tiers:
        notes = ["running nodes may still treat them as seen until they are restarted"]
    return Shown(said, notes=notes)


@options
class ExportOptions(ReportOptions):
    """What is exported to where, or imported from where."""

    file: Path = argument("FILE")


def export_file(given: ExportOptions) -> Shown:
    """Write what a crawl has seen to a file, for other crawls."""
    from frontier.requests.identities import require_project_of
    from frontier.seen.config import seen_config
    from frontier.seen.export import export

    with given.connected() as store:
        crawl = _crawl(store, given)
        require_project_of(crawl)
        tiers = seen_config(crawl.config)
        with bar("partitions", crawl.config.partitions) as progress:
            urls = export(store, crawl, tiers, given.file, progress)
    return _of_file(given, crawl.keys.crawl_id, {"exported": urls})


@options
class ImportOptions(ExportOptions):
    """The same, and a crawl that is made for it."""

    new: str = option(
        "", "NAME", "Create this crawl with the exported crawl's settings."
    )


def import_file(given: ImportOptions) -> Shown:
    """Let a crawl skip what another one has seen. A file that is cut off is refused."""
    from frontier.cluster.crawls import carry_call
    from frontier.requests.identities import require_project_of
    from frontier.seen.config import seen_config
    from frontier.seen.export import Import

    if bool(given.crawl) == bool(given.new):
        raise ConfigurationError("import needs either --crawl CRAWL_ID or --new NAME")
    given = replace(given, crawl=given.new or given.crawl)
    source = Import(given.file)
    require_project_of(source.crawl)
    with given.connected(create=bool(given.new)) as store:
        if given.new:
            source.create(store, given.namespace, given.new)
            store.call(carry_call(given.keys(store)))
        crawl = _crawl(store, given)
        try:
            with bar("URLs", source.urls) as progress:
                source.run(store, crawl, seen_config(crawl.config), progress)
        except BaseException:
            if source.read:
                say(
                    f"{source.read:,} of {source.urls:,} URLs were imported; run it "
                    "again"
                )
            raise
    said = {"imported": source.added, "seen_already": source.read - source.added}
    notes = [f"nodes join this crawl with FRONTIER_CRAWL_ID = {given.new!r}"]
    return _of_file(given, given.crawl, said, notes * bool(given.new))


def _forget(
    store: BlockingStore, crawl: StoredCrawl, by_partition: dict[int, list[int]]
) -> dict[str, int]:
    from frontier.seen.seen_set import CANNOT_FORGET, forget as forget_marks

    forgotten = by_bloom = done = 0
    every = sum(map(len, by_partition.values()))
    try:
        with bar("forgetting", every) as progress:
            for partition, marks in by_partition.items():
                found = forget_marks(store, crawl, partition, marks)
                forgotten += sum(found or ())
                by_bloom += 0 if found is not None else len(marks)
                done += len(marks)
                progress(done)
    except BaseException:
        say(f"at least {forgotten:,} URLs were forgotten; run it again")
        raise
    if every and by_bloom == every:
        raise ConfigurationError(CANNOT_FORGET.format(crawl.keys.crawl_id))
    missing = every - by_bloom - forgotten
    counts = {"not_in_the_set": missing, "decided_by_bloom": by_bloom}
    return {**counts, "forgotten": forgotten}


def _of_file(
    given: ExportOptions,
    crawl_id: str,
    counts: dict[str, int],
    notes: Sequence[str] = (),
) -> Shown:
    bytes_ = given.file.stat().st_size
    said = {"crawl_id": crawl_id, "file": str(given.file), "bytes": bytes_, **counts}
    return Shown(said, notes=notes)


def _crawl(store: BlockingStore, given: CrawlOptions) -> StoredCrawl:
    crawl = given.stored(store)
    if crawl.removed:
        raise NotFound(
            f"the crawl {crawl.keys.crawl_id} has ended, and what it had seen was "
            "removed (FRONTIER_KEEP_FRONTIER)"
        )
    return crawl


app = Commands(
    "Plan the seen test; copy or forget what a crawl has seen.",
    {"plan": plan, "export": export_file, "import": import_file, "forget": forget},
)
