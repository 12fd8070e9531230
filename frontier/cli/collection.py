"""``frontier collection``: what crawls share, and what other crawls have."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from frontier.cli.command import (
    COLLECTION,
    CRAWL_ID,
    Commands,
    Consent,
    CrawlsOptions,
    Output,
    StoreOptions,
    argument,
    confirm,
    flag,
    option,
    options,
)
from frontier.cli.output import (
    ExitCode,
    Shown,
    bar,
    facts,
    rows_of,
    say,
    table,
)
from frontier.errors import (
    CollectionInUse,
    ConfigurationError,
    KeyDamaged,
    NotFound,
    NotUncommitted,
    SourceBroken,
)
from frontier.status.text import first_of, size
from frontier.store.keys import collection_keys, names_a_crawl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.collection.check import Check
    from frontier.collection.sources import Source
    from frontier.collection.summary import CollectionView

MAX_SHOWN = 10
"""Names that are shown in one line; the others are counted."""
ROOT = "Directory that paths may not leave (default: the manifest's)."
NOT_DONE = "nothing was done; add --yes to do it"


def _crawl_id(text: str) -> str:
    """The id of a crawl; an invalid one is reported in one line."""
    if text and not names_a_crawl(text):
        raise ConfigurationError(f"no crawl has the id {text[:80]!r}")
    return text


@options
class OneCollection(Output, StoreOptions):
    """Which collection of which store."""

    collection: str = option(
        "",
        "NAME",
        "The collection (default: the one without a name).",
        envvar="FRONTIER_COLLECTION",
        type=COLLECTION,
    )


@options
class ListOptions(Output, StoreOptions):
    """Where collections are listed."""


def list_all(given: ListOptions) -> Shown:
    """List the collections in the store; name those that cannot be read."""
    from frontier.collection.summary import collections, look

    found: list[CollectionView] = []
    damaged: list[str] = []
    with given.connected() as store:
        for name in collections(store):
            try:
                found.append(look(store, collection_keys(store, name)))
            except KeyDamaged as error:
                damaged.append(str(error))
    heads = ("collection", ">payloads", ">committed", ">uncommitted", ">conserved")
    rows = [
        (
            view.name or "(default)",
            f"{view.digests:,}",
            f"{sum(crawl.state == 'committed' for crawl in view.crawls):,}",
            f"{sum(crawl.state != 'committed' for crawl in view.crawls):,}",
            size(view.counts.get("conservedSize", 0)),
        )
        for view in found
    ]
    return Shown(
        {"collections": [asdict(view) for view in found]},
        [table(*heads, rows=rows) if rows else "no collections yet"],
        faults=damaged,
    )


def status(given: OneCollection) -> Shown:
    """Show what is in a collection: crawls, payloads, counts.

    Files are those that were imported, or that Browsertrix added: nodes add none. A
    node that is killed does not add its last captures and revisits.
    """
    from frontier.collection.summary import look

    with given.connected() as store:
        seen = look(store, collection_keys(store, given.collection))
    if given.collection and seen.is_empty:
        raise NotFound(f"there is no collection {given.collection} in the store")
    return Shown(asdict(seen), _report(seen))


def _report(seen: CollectionView) -> Iterator[RenderableType]:
    counts = seen.counts
    urls, revisits = counts.get("totalUrls", 0), counts.get("dupeUrls", 0)
    sums = {
        "collection": seen.name or "(default)",
        "payloads": f"{seen.digests:,} that all crawls see",
        "captures": f"at least {urls:,}, {revisits:,} of them revisits",
        "conserved": f"at least {size(counts.get('conservedSize', 0))}",
        "files": _files(seen.sources, counts.get("totalCrawlSize", 0)),
        "redundant": size(counts.get("estimatedRedundantSize", 0)),
        "removed crawls": counts.get("removedCrawls", 0),
        "imported, purged": seen.updated or "never",
    }
    yield facts(rows_of(sums))
    if not seen.crawls:
        return
    yield ""
    numbers = ("rounds", "digests", "uncommitted", "urls", "revisits")
    names = ("rounds", "payloads", "uncommitted", "captures", "revisits")
    yield table(
        "crawl",
        "state",
        *(f">{name}" for name in names),
        ">files",
        rows=[
            (
                crawl.crawl_id,
                crawl.state,
                *(f"{getattr(crawl, number):,}" for number in numbers),
                _files(crawl.files, crawl.bytes),
            )
            for crawl in seen.crawls
        ],
    )


def _files(count: int, bytes_: int) -> str:
    return f"{count:,}, {size(bytes_)}" if count else "-"


@options
class ImportOptions(OneCollection, CrawlsOptions):
    """What is imported, and how."""

    targets: list[str] = argument("TARGET")
    crawl: str = option(
        "",
        CRAWL_ID,
        "Crawl id of sources whose manifest has none (default: the path).",
        "--crawl",
        type=_crawl_id,
    )
    compat: str = option(
        "", "TOOL", "browsertrix: use index 0 for every WACZ, and its spelling."
    )
    root: Path | None = option(None, "DIR", ROOT)
    digest: str = option(
        "",
        "ALGORITHM",
        "sha256, sha1 or blake3: compute it where a WARC has another.",
    )


def import_sources(given: ImportOptions) -> Shown:
    """Add the payloads of a WACZ, WARC, CDX or crawl.log to the index.

    A TARGET is the path or URL of such a file or of a manifest that lists WACZ files,
    or a directory of WARC and WACZ files.

    Skips what is in the index already. To finish an interrupted import, run it again.
    """
    from frontier.collection.import_ import Import, ImportConfig, Imported
    from frontier.postcrawl.payload import require_algorithm

    if given.compat not in {"", "browsertrix"}:
        raise ConfigurationError(
            f"--compat {given.compat}: the only value is browsertrix"
        )
    if given.digest:
        require_algorithm("--digest", given.digest)
    sources, left_out, is_whole = _sources(given)
    done = Imported(broken=left_out)
    if sources or is_whole:  # otherwise no store need be made
        with given.connected(create=True) as store:
            keys = collection_keys(store, given.collection)
            config = ImportConfig(bool(given.compat), given.digest)
            run = Import(store, keys, config, say=say, bar=bar)
            done = run.run(sources, removal=is_whole)
            done.broken[:0] = left_out
    rows = {
        "sources imported": done.sources,
        "in the index before": done.known,
        "left out": done.broken,
        "originals": done.originals,
        "revisits": done.revisits,
        "lines skipped": done.wrong_lines,
    }
    code = ExitCode.OK if done.complete else ExitCode.INCOMPLETE
    return Shown(asdict(done) | {"complete": done.complete}, rows, code=code)


@options
class OneOfItsCrawls(Consent, OneCollection, CrawlsOptions):
    """Which crawl of a collection."""

    # An id as `b:counts` would change what is noted of crawl b.
    crawl: str = option(..., CRAWL_ID, "The crawl.", "--crawl", type=_crawl_id)


def commit(given: OneOfItsCrawls) -> Shown:
    """Offer a crawl's payloads to all crawls of its collection.

    The last node of a crawl does it by itself. To finish an interrupted commit, run it
    again. If the crawl runs and commits in rounds, this commits a round now.
    """
    from frontier.collection.rounds import Committer, has_rounds
    from frontier.collection.summary import look, runs

    crawl_id = given.crawl
    with given.connected() as store:
        keys = collection_keys(store, given.collection)
        found = {each.crawl_id: each.digests for each in look(store, keys).crawls}
        if crawl_id not in found:
            raise NotUncommitted(crawl_id)
        in_rounds = has_rounds(store, keys, crawl_id)
        running = runs(store, given.namespace, crawl_id)
        if running and not (given.yes or in_rounds):
            raise CollectionInUse(
                f"{crawl_id} is open: what its nodes add from now on is committed "
                "only when it ends; end it first, or add --yes to commit what there "
                "is"
            )
        with bar("digests", found[crawl_id]) as progress:
            goes_on = running and in_rounds
            done = Committer(store, keys, crawl_id, progress).finish(goes_on=goes_on)
    rows = {
        "payload digests": done.digests,
        "new to the collection": done.added,
        "counted": "now" if done.first else "before",
    }
    return Shown(done._asdict(), rows)


def cancel(given: OneOfItsCrawls) -> Shown:
    """Remove a crawl's uncommitted payloads from the index. WARC files stay.

    If the crawl is open, its last node does it when it ends.
    """
    from frontier.collection.rounds import Committer, is_uncommitted
    from frontier.collection.summary import look, runs

    crawl_id = given.crawl
    with given.connected() as store:
        keys = collection_keys(store, given.collection)
        found = look(store, keys).crawls
        digests = {each.crawl_id: each.uncommitted for each in found}.get(crawl_id, 0)
        if not is_uncommitted(store, keys, crawl_id):
            raise NotUncommitted(crawl_id)
        running = runs(store, given.namespace, crawl_id)
        when = "when the crawl ends" if running else "now"
        said = {"crawl_id": crawl_id, "digests": digests, "forgotten": when}
        shown = Shown(
            said, [f"{digests:,} payload digests of {crawl_id} are forgotten {when}"]
        )
        confirm(given, shown, f"Forget what {crawl_id} has added?", NOT_DONE)
        Committer(store, keys, crawl_id).cancel(running=running)
    return shown


@options
class PurgeOptions(Consent, OneCollection):
    """Which crawls stay."""

    manifest: str = argument("MANIFEST")
    force: bool = flag("Purge even if the manifest is empty, broken or unreadable.")
    root: Path | None = option(None, "DIR", ROOT)


def purge(given: PurgeOptions) -> Shown:
    """Remove from the index the crawls that a manifest does not list.

    Shows its plan first; add --yes to do it. It refuses while a crawl runs, unless that
    commits in rounds; such a crawl stays.
    """
    from frontier.collection.purge import plan, purge as run_purge, require_quiet
    from frontier.collection.sources import crawls_in

    keep = crawls_in(given.manifest, given.root, force=given.force)
    with given.connected() as store:
        keys = collection_keys(store, given.collection)
        require_quiet(store, keys)
        planned = plan(store, keys, keep)
        said = {name: getattr(planned, name) for name in ("kept", "removed", "unknown")}
        said |= {"digests_before": planned.digests, "digests": planned.digests}
        crawls = {
            "crawls that stay": planned.kept,
            "crawls that go": planned.removed,
            "to keep, but not there": planned.unknown,
        }
        rows = [
            (what, first_of(names, MAX_SHOWN, " ") or "-")
            for what, names in crawls.items()
        ]
        rows.append(("digests now", f"{planned.digests:,}"))
        if planned.removed:
            if planned.kept or given.force:
                shown = Shown(said, [facts(rows)])
                confirm(given, shown, "Remove the crawls that go?", NOT_DONE)
            with bar("digests", None) as progress:
                said["digests"] = run_purge(
                    store, keys, planned, force=given.force, progress=progress
                )
    return Shown(said, [facts([*rows, ("digests left", f"{said['digests']:,}")])])


@options
class CheckOptions(OneCollection):
    """Which collection is checked."""

    repair: bool = flag("Repair faults that can be repaired in only one way.")


def check(given: CheckOptions) -> Shown:
    """Find entries that lead nowhere, wrong counts, and leftovers."""
    from frontier.collection.check import Check

    with given.connected() as store, bar("digests", None) as progress:
        keys = collection_keys(store, given.collection)
        found = Check(store, keys, repair=given.repair, progress=progress).run()
    code = ExitCode.OK if found.sound else ExitCode.FAULTY
    return Shown(found.as_dict(), _findings(found), code=code)


def _findings(found: Check) -> Iterator[str]:
    yield f"{found.digests:,} entries were looked at"
    for fault, count in found.faults.items():
        repaired = found.repaired[fault]
        mended = f", {repaired:,} repaired" if repaired else ""
        yield f"{count:,} {fault}{mended}"
        for example in found.examples[fault]:
            yield f"  {example}"
    yield from found.unfinished
    if not found.faults:
        yield "nothing is wrong"


def _sources(given: ImportOptions) -> tuple[list[Source], list[str], bool]:
    """The sources that the targets name, and what is left out, and why.

    And whether the targets are one manifest, that of a whole collection.
    """
    from frontier.collection.sources import Kind, kind_of, sources

    found: list[Source] = []
    left_out: list[str] = []

    def broken(error: SourceBroken) -> None:
        left_out.append(str(error))
        say(f"left out: {error}")

    targets = given.targets
    for target in targets:
        try:
            found += sources(
                target,
                crawl_id=given.crawl,
                root=given.root,
                broken=broken,
            )
        except SourceBroken as error:
            broken(error)
    is_file = len(targets) == 1 and not left_out and not Path(targets[0]).is_dir()
    return found, left_out, is_file and kind_of(targets[0]) is Kind.MANIFEST


app = Commands(
    "Look after the digest index that crawls share.",
    {
        "list": list_all,
        "status": status,
        "import": import_sources,
        "commit": commit,
        "cancel": cancel,
        "check": check,
        "purge": purge,
    },
)
