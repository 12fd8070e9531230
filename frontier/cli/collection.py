"""``frontier collection``: what crawls share, and what other crawls have."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from frontier.cli.command import Commands
from frontier.cli.options import Compat, CrawlsOptions, Output, Root, StoreOptions, Yes
from frontier.cli.output import ExitCode, bar, complain, facts, say, show
from frontier.errors import (
    CollectionInUse,
    ConfigurationError,
    KeyDamaged,
    NotFound,
    NotUncommitted,
    SourceBroken,
)
from frontier.store.keys import collection_keys, names_a_crawl

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from frontier.cli.output import Rows
    from frontier.collection.check import Findings
    from frontier.collection.import_ import Import, Imported
    from frontier.collection.purge import Plan
    from frontier.collection.rounds import Committed
    from frontier.collection.sources import Source
    from frontier.collection.summary import CollectionView


MAX_SHOWN = 10
"""Names that are shown in one line; the others are counted."""


def imported_rows(done: Imported) -> Rows:
    """What an import did."""
    return [
        ("sources imported", f"{done.sources:,}"),
        ("in the index before", f"{done.known:,}"),
        ("left out", f"{len(done.broken):,}"),
        ("originals", f"{done.originals:,}"),
        ("revisits", f"{done.revisits:,}"),
        ("lines skipped", f"{done.wrong_lines:,}"),
    ]


def collections_table(found: Sequence[CollectionView]) -> Table:
    """One row for each collection."""
    rows = [
        [
            view.name or "(default)",
            f"{view.digests:,}",
            f"{sum(crawl.state == 'committed' for crawl in view.crawls):,}",
            f"{sum(crawl.state != 'committed' for crawl in view.crawls):,}",
            decimal(view.counts.get("conservedSize", 0)),
        ]
        for view in found
    ]
    heads = ("collection", "payloads", "committed", "uncommitted", "conserved")
    return _table(heads, rows)


def collection_report(seen: CollectionView) -> Iterator[RenderableType]:
    """The whole report of *seen*."""
    counts = seen.counts
    urls, revisits = counts.get("totalUrls", 0), counts.get("dupeUrls", 0)
    yield facts(
        [
            ("collection", seen.name or "(default)"),
            ("payloads", f"{seen.digests:,} that all crawls see"),
            ("captures", f"{urls:,}, {revisits:,} of them revisits"),
            ("conserved", f"at least {decimal(counts.get('conservedSize', 0))}"),
            ("files", f"{seen.sources:,}, {decimal(counts.get('totalCrawlSize', 0))}"),
            ("redundant", decimal(counts.get("estimatedRedundantSize", 0))),
            ("removed crawls", f"{counts.get('removedCrawls', 0):,}"),
            ("updated", seen.updated or "-"),
        ]
    )
    if seen.crawls:
        yield Text()
        heads = ["crawl", "state", "rounds", "payloads", "uncommitted", "files"]
        heads += ["captures", "revisits", "bytes"]
        rows = [
            [
                crawl.crawl_id,
                crawl.state,
                f"{crawl.rounds:,}",
                f"{crawl.digests:,}",
                f"{crawl.uncommitted:,}",
                f"{crawl.files:,}",
                f"{crawl.urls:,}",
                f"{crawl.revisits:,}",
                decimal(crawl.bytes),
            ]
            for crawl in seen.crawls
        ]
        yield _table(heads, rows)


def purge_rows(planned: Plan) -> Rows:
    """What a purge would do."""
    return [
        ("crawls that stay", _some(planned.kept)),
        ("crawls that go", _some(planned.removed)),
        ("to keep, but not there", _some(planned.unknown)),
        ("digests now", f"{planned.digests:,}"),
    ]


def findings_report(found: Findings) -> Iterator[RenderableType]:
    """What a check has found."""
    yield Text(f"{found.digests:,} entries were looked at")
    for fault, count in found.faults.items():
        repaired = found.repaired[fault]
        mended = f", {repaired:,} repaired" if repaired else ""
        yield Text(f"{count:,} {fault}{mended}")
        for example in found.examples[fault]:
            yield Text(f"  {example}")
    for text in found.unfinished:
        yield Text(text)
    if not found.faults:
        yield Text("nothing is wrong")


def _some(names: Sequence[str]) -> str:
    shown = " ".join(names[:MAX_SHOWN])
    more = len(names) - MAX_SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown or "-"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        table.add_column(head, justify="left" if number < 1 else "right")
    for row in rows:
        table.add_row(*row)
    return table


app = Commands("Look after the digest index that crawls share.")


def collection_named(name: str) -> str:
    """The name of a collection; a wrong one is told as one line."""
    from frontier.settings.values import collection

    try:
        return str(collection(name))
    except ValueError as error:
        raise ConfigurationError(f"--collection {name!r}: {error}") from None


def _crawl_id(text: str) -> str:
    """The id of a crawl; a wrong one is told as one line."""
    if text and not names_a_crawl(text):
        raise ConfigurationError(f"no crawl has the id {text[:80]!r}")
    return text


Collection = Annotated[
    str,
    typer.Option(
        "--collection",
        envvar="FRONTIER_COLLECTION",
        metavar="NAME",
        callback=collection_named,
        help="The collection (default: the one without a name).",
    ),
]
CrawlId = Annotated[
    str,
    typer.Option("--crawl", metavar="CRAWL_ID", callback=_crawl_id, help="The crawl."),
]


@app.command("list")
def list_all(
    output: Output,
    options: StoreOptions,
) -> None:
    """List the collections in the store; name those that cannot be read."""
    from frontier.collection.summary import collections, look

    found, damaged = [], []
    with options.connected() as store:
        for name in collections(store):
            try:
                found.append(look(store, collection_keys(store, name)))
            except KeyDamaged as error:
                damaged.append(name)
                complain(str(error))
    text = collections_table(found) if found else Text("no collections yet")
    output.result({"collections": [asdict(view) for view in found]}, [text])
    if damaged:
        raise typer.Exit(ExitCode.INCOMPLETE)


@app.command()
def status(
    output: Output,
    options: StoreOptions,
    collection: Collection = "",
) -> None:
    """Show what is in a collection: crawls, payloads, counts."""
    from frontier.collection.summary import look

    with options.connected() as store:
        seen = look(store, collection_keys(store, collection))
    if collection and seen.is_empty:
        raise NotFound(f"there is no collection {collection} in the store")
    output.result(asdict(seen), collection_report(seen))


Targets = Annotated[list[str], typer.Argument(metavar="TARGET")]


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How sources are imported."""

    crawl_id: Annotated[
        str,
        typer.Option(
            "--crawl",
            metavar="CRAWL_ID",
            callback=_crawl_id,
            help="Crawl id of sources whose manifest has none (default: the path).",
        ),
    ] = ""
    compat: Compat = ""
    root: Root = None
    verify: Annotated[
        bool, typer.Option(help="Check local files against the hash in their manifest.")
    ] = True
    digest: Annotated[
        str,
        typer.Option(
            metavar="ALGORITHM",
            help="sha256, sha1 or blake3: compute it where a WARC has another.",
        ),
    ] = ""


@app.command("import")
def import_sources(
    how: ImportOptions,
    output: Output,
    options: CrawlsOptions,
    targets: Targets,
    collection: Collection = "",
) -> None:
    """Add the payloads of a WACZ, WARC, CDX or crawl.log to the index.

    A TARGET is the path or the URL of one, or of a manifest that lists WACZ files, or
    a directory of WARC and WACZ files.

    Skips what is in the index already. To finish an interrupted import, run it again.
    """
    from frontier.collection.import_ import Import, ImportConfig

    require_compat(how.compat)
    with options.connected(create=True) as store:
        keys = collection_keys(store, collection)
        run = Import(
            store,
            keys,
            ImportConfig(bool(how.compat), how.verify, require_algorithm(how.digest)),
            say=say,
            bar=bar,
        )
        sources, is_whole = _sources(run, targets, how)
        done = run.run(sources, removal=is_whole)
    said = asdict(done) | {"complete": done.complete}
    output.result(said, [facts(imported_rows(done))])
    if not done.complete:
        raise typer.Exit(ExitCode.INCOMPLETE)


@app.command()
def commit(
    options: CrawlsOptions,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: Collection = "",
) -> None:
    """Offer a crawl's payloads to all crawls.

    The last node of a crawl does it by itself. To finish an interrupted commit, run it
    again. Of a crawl that runs, and commits in rounds, it commits one now.
    """
    from frontier.collection.rounds import Committer, has_rounds
    from frontier.collection.summary import look, runs

    with options.connected() as store:
        keys = collection_keys(store, collection)
        found = {each.crawl_id: each.digests for each in look(store, keys).crawls}
        if crawl_id not in found:
            raise NotUncommitted(crawl_id)
        in_rounds = has_rounds(store, keys, crawl_id)
        running = runs(store, options.namespace, crawl_id)
        if running and not (yes or in_rounds):
            raise CollectionInUse(
                f"{crawl_id} is open: what its nodes add from now on is committed "
                "only when it ends; end it first, or add --yes to commit what there "
                "is"
            )
        with bar("digests", found[crawl_id]) as progress:
            goes_on = running and in_rounds
            done = Committer(store, keys, crawl_id, progress).finish(goes_on=goes_on)
    show([_table_of(done)])


def _table_of(done: Committed) -> Table:
    rows = [
        ("payload digests", f"{done.digests:,}"),
        ("new to the collection", f"{done.added:,}"),
        ("counted", "now" if done.first else "before"),
    ]
    return facts(rows)


@app.command()
def cancel(
    options: CrawlsOptions,
    crawl_id: CrawlId,
    yes: Yes = False,
    collection: Collection = "",
) -> None:
    """Remove from the index what a crawl has added uncommitted. WARC files stay.

    If the crawl is open, its last node does it when it ends.
    """
    from frontier.collection.rounds import Committer, is_uncommitted
    from frontier.collection.summary import look, runs

    with options.connected() as store:
        keys = collection_keys(store, collection)
        found = look(store, keys).crawls
        digests = {each.crawl_id: each.uncommitted for each in found}.get(crawl_id, 0)
        if not is_uncommitted(store, keys, crawl_id):
            raise NotUncommitted(crawl_id)
        running = runs(store, options.namespace, crawl_id)
        when = "when the crawl ends" if running else "now"
        show([Text(f"{digests:,} payload digests of {crawl_id} are forgotten {when}")])
        require_yes(yes=yes)
        Committer(store, keys, crawl_id).cancel(running=running)


@app.command()
def purge(
    output: Output,
    options: StoreOptions,
    manifest: Annotated[str, typer.Argument(metavar="MANIFEST")],
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Purge even if the manifest is empty, broken or unreadable."
        ),
    ] = False,
    yes: Yes = False,
    root: Root = None,
    collection: Collection = "",
) -> None:
    """Remove from the index the crawls that a manifest does not list.

    Shows its plan first; add --yes to do it. Refused while a crawl runs, unless it
    commits in rounds: that one stays.
    """
    from frontier.collection.purge import plan, require_quiet
    from frontier.collection.purge import purge as run_purge

    keep = _crawls_of(manifest, root, force=force)
    with options.connected() as store:
        keys = collection_keys(store, collection)
        require_quiet(store, keys)
        planned = plan(store, keys, keep)
        if not output.as_json:
            show([facts(purge_rows(planned))])
        if not planned.removed:
            left = planned.digests
        else:
            if planned.kept or force:
                require_yes(yes=yes)
            with bar("digests", None) as progress:
                left = run_purge(store, keys, planned, force=force, progress=progress)
    said = {name: getattr(planned, name) for name in ("kept", "removed", "unknown")}
    said |= {"digests_before": planned.digests, "digests": left}
    output.result(said, [facts([("digests left", f"{left:,}")])])


@app.command()
def check(
    output: Output,
    options: StoreOptions,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Repair faults that can be repaired in only one way."
        ),
    ] = False,
    collection: Collection = "",
) -> None:
    """Find entries that lead nowhere, wrong counts, and leftovers of other tools."""
    from frontier.collection.check import Check

    with options.connected() as store, bar("digests", None) as progress:
        keys = collection_keys(store, collection)
        found = Check(store, keys, repair=repair, progress=progress).run()
    output.result(found.as_dict(), findings_report(found))
    if not found.sound:
        raise typer.Exit(ExitCode.FAULTY)


def require_yes(*, yes: bool) -> None:
    """Raise unless the operator has said that it is to be done."""
    if not yes:
        raise ConfigurationError("nothing was done; add --yes to do it")


def _crawls_of(manifest: str, root: Path | None, *, force: bool) -> set[str]:
    """The crawls that *manifest* lists; with *force* whatever can be read of it."""
    from frontier.collection.sources import Kind, kind_of, sources

    faults: list[SourceBroken] = []
    found: set[str] = set()
    try:
        if kind_of(manifest) is not Kind.MANIFEST:
            faults.append(SourceBroken(manifest, "it is not a manifest"))
        else:
            given = sources(manifest, root=root, broken=faults.append)
            found = {source.crawl_id for source in given}
    except SourceBroken as error:
        faults.append(error)
    if faults and not force:
        raise ConfigurationError(
            f"{faults[0]}; nothing was done, as payloads that only this part of the "
            "manifest lists would be removed"
        )
    return found


def require_compat(compat: str) -> None:
    """Raise unless *compat* is empty or names a tool that is known."""
    if compat not in {"", "browsertrix"}:
        raise ConfigurationError(f"--compat {compat}: the only value is browsertrix")


def require_algorithm(name: str) -> str:
    """Return *name*, which is empty or an algorithm that can be computed here."""
    from frontier.dedupe.digest import ALGORITHMS, hashing

    try:
        if name:
            hashing(name)
    except (ValueError, ImportError):
        known = ", ".join(ALGORITHMS)
        message = f"--digest {name}: none of {known}, or its package is missing"
        raise ConfigurationError(message) from None
    return name


def _sources(
    run: Import, targets: list[str], how: ImportOptions
) -> tuple[list[Source], bool]:
    """What *targets* name, and whether they are one manifest, a whole collection."""
    from frontier.collection.sources import Kind, kind_of, sources

    found: list[Source] = []
    for target in targets:
        try:
            found += sources(
                target,
                crawl_id=how.crawl_id,
                root=how.root,
                broken=run.broken,
            )
        except SourceBroken as error:
            run.broken(error)
    whole = len(targets) == 1 and not run.done.broken and not Path(targets[0]).is_dir()
    return found, whole and kind_of(targets[0]) is Kind.MANIFEST


app.in_order("list", "status", "import", "commit", "cancel", "check", "purge")
