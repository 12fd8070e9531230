"""``frontier seen``: plan the seen test, look into it, carry it over."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from frontier.cli.options import Commands, CrawlOptions, Output, Yes
from frontier.cli.output import bar, say, show, show_json
from frontier.cli.report import facts
from frontier.errors import CannotForget, ConfigurationError
from frontier.status.validate import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from frontier.cli.project import Identity
    from frontier.seen.capacity_plan import Forecast
    from frontier.seen.seen_set import Answer, StoredCrawl
    from frontier.settings.config import Config
    from frontier.store.client import BlockingStore

CHOICES: tuple[tuple[str, int], ...] = (
    ("recent,bloom,set", 64),
    ("recent,set", 64),
    ("recent,set", 32),
    ("recent,bloom", 64),
)
"""Tiers and bits of the set that a plan compares when none are named."""


Tiers = Annotated[
    str,
    typer.Option(
        metavar="TIERS", help="As FRONTIER_SEEN_TIERS (default: compare some)."
    ),
]
Partitions = Annotated[
    int, typer.Option(min=1, max=16384, metavar="N", help="As FRONTIER_PARTITIONS.")
]
Plot = Annotated[
    Path | None,
    typer.Option(metavar="FILE.png", help="Draw how the error grows with the URLs."),
]


def plan(
    output: Output,
    urls: Annotated[
        str, typer.Option(metavar="N", help="URLs of the crawl: 2000, 50M, 1.5G.")
    ],
    error: Annotated[
        str, typer.Option(metavar="RATE", help="Share of new URLs that may be lost.")
    ] = "0.001",
    tiers: Tiers = "",
    set_bits: Annotated[
        int | None,
        typer.Option(metavar="BITS", help="64 or 32, as FRONTIER_SEEN_SET_BITS."),
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, metavar="N", help="Nodes of the crawl.")
    ] = 1,
    partitions: Partitions = 1024,
    plot: Plot = None,
) -> None:
    """Show how much memory a seen test takes, what it loses, and its settings."""
    from frontier.seen.capacity_plan import count_of, rate_of

    count, rate = count_of(urls), rate_of(error)
    configs = [
        _config(count, rate, choice, bits, partitions)
        for choice, bits in _choices(tiers, set_bits)
    ]
    rows = [row for config in configs for row in _forecasts(config, count)]
    if plot is not None:
        _draw(plot, configs[0], count)
    output.result(
        _plan_json(configs[0], rows, count, nodes),
        _plan_text(configs[0], rows, count, nodes),
    )


def _choices(tiers: str, set_bits: int | None) -> tuple[tuple[str, int], ...]:
    """What is compared, if these are asked for."""
    choices = ((tiers, 64),) if tiers else CHOICES
    if set_bits is None:
        return choices
    sets = [choice for choice, _ in choices if tiers or "set" in choice.split(",")]
    return tuple((choice, set_bits) for choice in dict.fromkeys(sets))


def _config(
    capacity: int, rate: float, tiers: str, set_bits: int, partitions: int
) -> Config:
    from frontier.settings.config import Config

    return Config.from_settings(
        {
            "FRONTIER_BLOOM_CAPACITY": capacity,
            "FRONTIER_BLOOM_ERROR_RATE": rate,
            "FRONTIER_SEEN_TIERS": tiers,
            "FRONTIER_SEEN_SET_BITS": set_bits,
            "FRONTIER_PARTITIONS": partitions,
        }
    )


def _forecasts(config: Config, count: int) -> Iterator[Forecast]:
    """All partitions alike, then all URLs in one."""
    from frontier.seen.capacity_plan import forecast
    from frontier.seen.config import seen_config

    shape, size = seen_config(config), config.seen_recent_size
    for partitions in dict.fromkeys((config.partitions, 1)):
        yield forecast(
            config.seen_tiers, shape.generation, shape.space, count, partitions, size
        )


def _draw(path: Path, config: Config, count: int) -> None:
    from frontier.cli.plots import draw_bloom_errors
    from frontier.seen.capacity_plan import curve
    from frontier.seen.config import seen_config

    rate, most = config.bloom_error_rate, count * 10
    curves = {}
    for capacity, asked in (
        (count, rate),
        (max(1, count // 10), rate),
        (count, min(rate * 10, 0.5)),
    ):
        other = _config(capacity, asked, "bloom", 64, config.partitions)
        points = curve(seen_config(other).generation, config.partitions, most)
        curves[f"CAPACITY {capacity:,}\nERROR_RATE {asked:g}"] = points
    draw_bloom_errors(path, curves, count, rate)


def _settings(config: Config) -> dict[str, Any]:
    return {
        "FRONTIER_SEEN_TIERS": ",".join(config.seen_tiers),
        "FRONTIER_SEEN_SET_BITS": config.seen_set_bits,
        "FRONTIER_BLOOM_CAPACITY": config.bloom_capacity,
        "FRONTIER_BLOOM_ERROR_RATE": config.bloom_error_rate,
        "FRONTIER_PARTITIONS": config.partitions,
    }


def _plan_json(
    config: Config, rows: list[Forecast], count: int, nodes: int
) -> dict[str, Any]:
    return {
        "urls": count,
        "error_rate": config.bloom_error_rate,
        "nodes": nodes,
        "plans": [
            {
                **asdict(row),
                "store_bytes": row.store_bytes,
                "recent_bytes_of_all_nodes": row.recent_bytes * nodes,
            }
            for row in rows
        ],
        "settings": _settings(config),
    }


def _plan_text(
    config: Config, rows: list[Forecast], count: int, nodes: int
) -> Iterator[RenderableType]:
    from frontier.seen.capacity_plan import BUCKET_BYTES, RECENT_BYTES

    rate = config.bloom_error_rate
    yield Text(f"{count:,} URLs, a Bloom error below {rate:g}")
    yield Text()
    yield _plan_table(rows)
    yield Text()
    spread = f"alike in all {config.partitions} partitions"
    yield Text(f"URLs:   {spread}, or in one, as a single site's are")
    yield Text("Bloom:  the bits of all filters of the partitions; beside a set of 64")
    yield Text("        bits they are made when it is given up, and store is without")
    yield Text(f"set:    8 bytes a URL, /32: 4; {BUCKET_BYTES} a bucket")
    if recent := max(row.recent_bytes for row in rows):
        each = f"{decimal(recent)} on each node, {decimal(recent * nodes)} on {nodes}"
        yield Text(f"recent: {RECENT_BYTES} bytes an entry, about: {each}")
    yield Text("lost:   new URLs called seen; where there is a set, it alone decides")
    yield Text()
    yield Text("# settings.py")
    for name, value in _settings(config).items():
        yield Text(f"{name} = {value!r}")


def _plan_table(rows: list[Forecast]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("tiers", no_wrap=True)
    table.add_column("URLs", no_wrap=True)
    for name in ("Bloom", "set", "store", "filters", "hashes", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        used = sorted({each.hashes for each in row.generations})
        hashes = f"{used[0]}-{used[-1]}" if len(used) > 1 else "".join(map(str, used))
        table.add_row(
            ",".join(row.tiers) + ("/32" if row.set_bits == 32 else ""),
            "in one" if row.one_partition else "alike",
            decimal(row.bloom_bytes) if used else "-",
            decimal(row.set_bytes) if row.set_bytes else "-",
            decimal(row.store_bytes),
            str(len(row.generations)) if used else "-",
            hashes or "-",
            f"{row.lost:.2g}",
        )
    return table


app = Commands("Plan the seen test, ask it, copy it to another crawl.")
app.command()(plan)


@app.command()
def check(
    options: CrawlOptions,
    output: Output,
    url: Annotated[str, typer.Argument(metavar="URL")],
) -> None:
    """Say whether a crawl has seen a URL, and which tier says so."""
    from frontier.cli.project import Identities
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
    from frontier.cli.project import Identities, lines_of

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
    from frontier.cli.project import require_project_of
    from frontier.cluster.shared_settings import FINGERPRINTER
    from frontier.seen.config import seen_config
    from frontier.seen.export import export

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
    from frontier.cli.project import fingerprinter_name, require_project_of
    from frontier.cluster.crawls import carry_call
    from frontier.seen.config import seen_config
    from frontier.seen.export import Import
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


app.in_order("plan", "check", "export", "import", "forget")
