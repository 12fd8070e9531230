"""``frontier seen``: plan the seen test, look into it, carry it over."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path  # noqa: TC003 (typer asks for it)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal

from frontier.cli.options import Commands, CrawlOptions, Output, Yes
from frontier.cli.output import say, show, show_json
from frontier.cli.progress import bar
from frontier.cli.report import facts
from frontier.cli.seen_plan import plan
from frontier.errors import CannotForget, ConfigurationError
from frontier.status.validate import printable

if TYPE_CHECKING:
    from frontier.cli.project_urls import Identity
    from frontier.seen.seen_set import Answer, StoredCrawl
    from frontier.store.client import BlockingStore

app = Commands("Plan the seen test, ask it, copy it to another crawl.")
app.command()(plan)


@app.command()
def check(
    options: CrawlOptions,
    output: Output,
    url: Annotated[str, typer.Argument(metavar="URL")],
) -> None:
    """Say whether a crawl has seen a URL, and which tier says so."""
    from frontier.cli.project_urls import Identities
    from frontier.seen.config import seen_config
    from frontier.seen.seen_set import look

    with options.connected() as store:
        crawl = _crawl(store, options)
        identity = Identities(crawl, store).of(url.strip())
        answer = look(
            store,
            crawl.keys.partition(identity.partition),
            identity.mark,
            seen_config(crawl.config),
        )
    said = _answer(crawl, identity, answer)
    output.result(said, [facts(_answer_rows(said))])


@app.command()
def forget(
    options: CrawlOptions,
    output: Output,
    target: Annotated[str, typer.Argument(metavar="URL|FILE")],
    yes: Yes = False,
) -> None:
    """Make URLs new again: one, or those of a file, one a line.

    Shows its plan first; add --yes to do it. Takes whole URLs only: the store keeps
    hashes, and a hash does not tell what its URL begins with.
    """
    from frontier.cli.project_urls import Identities, lines_of

    lines = lines_of(target)
    with options.connected() as store:
        crawl = _crawl(store, options)
        identities = Identities(crawl, store)
        with bar("fingerprints", len(lines)) as progress:
            by_partition = identities.marks_of(lines, progress)
        plan = _plan_to_forget(store, crawl, by_partition, len(lines))
        if not output.as_json:
            show([facts(_rows(plan.said))])
        if plan.said["in_the_set"]:
            _require_consent(plan.said, output, yes=yes)
            plan.said["forgotten"] = _forget(store, crawl, plan.marks)
    if output.as_json:
        show_json(plan.said)
    elif plan.said["forgotten"] is not None:
        show([facts(_rows({"forgotten": plan.said["forgotten"]}))])
    if plan.said["forgotten"] and "recent" in crawl.config.seen_tiers:
        say("nodes that run may still call them seen until they are restarted")


@app.command("export")
def export_file(
    options: CrawlOptions,
    output: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
) -> None:
    """Write what a crawl has seen to a file that other crawls can import."""
    from frontier.cli.project_urls import require_project_of
    from frontier.cluster.shared_settings import FINGERPRINTER
    from frontier.seen.config import seen_config
    from frontier.seen.export.transfer import export

    with options.connected() as store:
        crawl = _crawl(store, options)
        require_project_of(crawl)
        tiers, name = seen_config(crawl.config), crawl.shape[FINGERPRINTER]
        with bar("partitions", crawl.config.partitions) as progress:
            urls = export(store, crawl, tiers, file, name, progress)
    _say_of_file(crawl.keys.crawl_id, file, {"exported": urls}, output)


NewCrawl = Annotated[
    str,
    typer.Option(
        "--new",
        metavar="NAME",
        help="Create this crawl, with the settings of the exported one.",
    ),
]


@app.command("import")
def import_file(
    options: CrawlOptions,
    output: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    new: NewCrawl = "",
) -> None:
    """Let a crawl skip what another one has seen. A file that is cut off is refused."""
    from frontier.cli.project_urls import fingerprinter_name, require_project_of
    from frontier.cluster.crawls import carry_call
    from frontier.seen.config import seen_config
    from frontier.seen.export.transfer import Import
    from frontier.store.keys import CrawlKeys

    if bool(options.given) == bool(new):
        raise ConfigurationError("import needs either --crawl CRAWL_ID or --new NAME")
    options = replace(options, given=new or options.given)
    with (
        Import(file, fingerprinter_name()) as source,
        options.connected(create=bool(new)) as store,
    ):
        if new:
            source.create(store, options.namespace, new)
            store.call(carry_call(CrawlKeys(options.namespace, new)))
        crawl = _crawl(store, options)
        require_project_of(crawl)
        try:
            with bar("URLs", source.urls) as progress:
                source.run(store, crawl, seen_config(crawl.config), progress)
        except BaseException:
            if source.read:
                say(f"{source.read:,} of {source.urls:,} URLs were imported; repeat it")
            raise
    said = {"imported": source.added, "seen_already": source.read - source.added}
    _say_of_file(options.given, file, said, output)
    if new:
        say(f"nodes join this crawl with FRONTIER_CRAWL_ID = {new!r}")


@dataclass(slots=True)
class _Forgetting:
    """What is to be forgotten, by partition, and what there is to say of it."""

    marks: dict[int, list[int]]
    said: dict[str, Any]


def _plan_to_forget(
    store: BlockingStore,
    crawl: StoredCrawl,
    by_partition: dict[int, list[int]],
    urls: int,
) -> _Forgetting:
    from frontier.seen.config import seen_config
    from frontier.status.seen_tiers import members

    tiers = seen_config(crawl.config)
    if not tiers.has_set:
        raise CannotForget(crawl.keys.crawl_id)
    every = sum(map(len, by_partition.values()))
    marks, there, done = dict[int, list[int]](), 0, 0
    with bar("looking", every) as progress:
        for partition, asked in by_partition.items():
            found = members(store, crawl.keys.partition(partition), tiers, asked)
            if found is not None:
                marks[partition] = asked
                there += found
            done += len(asked)
            progress(done)
    if not marks:
        raise CannotForget(crawl.keys.crawl_id)
    in_sets = sum(map(len, marks.values()))
    said = {
        "crawl_id": crawl.keys.crawl_id,
        "urls": urls,
        "in_the_set": there,
        "not_in_the_set": in_sets - there,
        "decided_by_bloom": every - in_sets,
        "forgotten": None if there else 0,
    }
    return _Forgetting(marks, said)


def _require_consent(said: dict[str, Any], output: Output, *, yes: bool) -> None:
    """Return if the plan is to be carried out."""
    if yes:
        return
    question = f"Forget {said['in_the_set']:,} URLs of {said['crawl_id']}?"
    if sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm(question, err=True):
        return
    if output.as_json:
        show_json(said)
    raise ConfigurationError("nothing was forgotten; to forget them add --yes")


def _forget(
    store: BlockingStore, crawl: StoredCrawl, by_partition: dict[int, list[int]]
) -> int:
    from frontier.seen.config import seen_config
    from frontier.seen.seen_set import forget as forget_marks

    tiers, forgotten, done = seen_config(crawl.config), 0, 0
    try:
        with bar("forgetting", sum(map(len, by_partition.values()))) as progress:
            for partition, marks in by_partition.items():
                forgotten += sum(forget_marks(store, crawl, tiers, partition, marks))
                done += len(marks)
                progress(done)
    except BaseException:
        say(f"at least {forgotten:,} URLs were forgotten; repeat it")
        raise
    return forgotten


def _rows(said: dict[str, Any]) -> list[tuple[str, str]]:
    names = {"crawl_id": "crawl", "urls": "URLs"}
    return [
        (names.get(name, name.replace("_", " ")), _shown(value))
        for name, value in said.items()
        if value is not None and (value or name != "decided_by_bloom")
    ]


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _say_of_file(
    crawl_id: str, file: Path, counts: dict[str, int], output: Output
) -> None:
    size = file.stat().st_size
    rows = [(name.replace("_", " "), f"{n:,}") for name, n in counts.items()]
    rows = [("crawl", crawl_id), ("file", f"{file}, {decimal(size)}"), *rows]
    said = {"crawl_id": crawl_id, "file": str(file), "bytes": size, **counts}
    output.result(said, [facts(rows)])


def _crawl(store: BlockingStore, options: CrawlOptions) -> StoredCrawl:
    from frontier.errors import FrontierRemoved

    crawl = options.crawl(store)
    if crawl.removed:
        raise FrontierRemoved(crawl.keys.crawl_id)
    return crawl


def _answer(crawl: StoredCrawl, identity: Identity, answer: Answer) -> dict[str, Any]:
    tiers = crawl.config.seen_tiers
    decides = _decides(tiers, answer)
    return {
        "crawl_id": crawl.keys.crawl_id,
        "url": identity.url,
        "seen": answer.seen,
        "decided_by": decides,
        "set": answer.in_set if "set" in tiers else None,
        "bloom": any(answer.filters) if "bloom" in tiers else None,
        "bloom_generations": list(answer.filters),
        "bloom_error": answer.bloom_error,
        "fingerprint": identity.fingerprint.hex(),
        "queue_key": identity.queue_key,
        "partition": identity.partition,
        "bucket": answer.bucket,
        "buckets": answer.layout.buckets,
    }


def _decides(tiers: tuple[str, ...], answer: Answer) -> str:
    if "set" in tiers and (answer.in_set or not answer.layout.era):
        return "set"
    return "bloom" if "bloom" in tiers else "nothing"


def _answer_rows(said: dict[str, Any]) -> list[tuple[str, str]]:
    word = {True: "yes", False: "no", None: "the crawl has none"}
    bloom = word[said["bloom"]]
    if said["bloom"] is False and not said["bloom_generations"]:
        bloom = "it has nothing, until a set is given up"
    if said["bloom_generations"]:
        which = [str(n) for n, has in enumerate(said["bloom_generations"]) if has]
        bloom += f", filter {', '.join(which)}" if which else ""
        bloom += f"; of new URLs it calls at most {said['bloom_error']:.2g} seen"
    place = f"{word[said['set']]}, bucket {said['bucket']} of {said['buckets']}"
    return [
        ("crawl", said["crawl_id"]),
        ("URL", printable(said["url"])),
        ("seen", f"{word[said['seen']]}, as the {said['decided_by']} says"),
        ("set", place if said["set"] is not None else word[None]),
        ("Bloom", bloom),
        ("recent", "each node has its own; it is not asked"),
        ("fingerprint", f"{said['fingerprint']}, of a GET without a body"),
        ("queue key", printable(said["queue_key"])),
        ("partition", str(said["partition"])),
    ]
