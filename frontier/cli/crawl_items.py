"""``frontier crawl items``: the feed files of all nodes, joined without doubles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from frontier.cli.command import (
    CrawlOptions,
    Overwriting,
    ReportOptions,
    argument,
    option,
    options,
)
from frontier.cli.output import ExitCode, Shown, end_with
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from frontier.status.views import CrawlSnapshot

NODE = "%(frontier_node)s"
"""Stands for the node in a feed's name; see `frontier.pipelines.feed_uri_params`."""


@options
class ItemsOptions(Overwriting, ReportOptions):
    """Which files of which crawl are joined."""

    files: list[str] = argument("FILE")
    out: Path = option(..., "OUT", "The file to write.", "--out", "-o")
    field: str = option(
        "frontier_origin",
        "FIELD",
        "Field that says where an item is from, as FRONTIER_ITEM_ORIGIN_FIELD.",
    )


def items(given: ItemsOptions) -> Shown:
    """Join the feed files of all nodes, without duplicates.

    The files are JSON lines or CSV.

    A page that was fetched again after a kill has its items there twice: it takes those
    of the last delivery. In a FILE, %(frontier_node)s stands for each node of the
    crawl. Missing files are named. With that, or with --crawl, items of other
    crawls are left out, and counted.

    Examples:
        frontier crawl items a.jsonl b.jsonl --out all.jsonl
        frontier crawl items 'items-%(frontier_node)s.jsonl' --out all.jsonl
    """
    from frontier.files import mode_of_environment, published
    from frontier.item_files import join, require_readable

    out = given.out
    seen = _look(given) if any(NODE in name for name in given.files) else None
    named, expected, faults = _named(given.files, seen)
    require_readable(named)
    if out.exists() and not given.force:
        raise ConfigurationError(f"{out} exists; add --force to overwrite it")
    there = [path for path in named if path.exists()]
    if any(out.exists() and out.samefile(path) for path in there):
        raise ConfigurationError(f"{out} is one of the files to join")
    missing = [path for path in named if path not in there and expected.get(path, 1)]
    faults += [f"{path} is missing" for path in missing]
    if not there:
        end_with(faults, ExitCode.NOT_FOUND)
    with published(out, mode_of_environment()) as file:
        crawl_id = seen.crawl_id if seen else given.crawl
        done = join(there, given.field, file, crawl_id)
        if done.of_others and not done.items:
            raise ConfigurationError(
                f"none of {done.of_others:,} items is of the crawl {crawl_id}"
            )
        if done.items and done.without_origin == done.items + done.of_others:
            raise ConfigurationError(
                f"no item has its origin in the field {given.field}: duplicates "
                "cannot be recognized; crawl with FRONTIER_ITEM_ORIGIN_FIELD, "
                "declare the field in item classes, or name it with --field"
            )
    faults += [f"{cut.file}, line {cut.line}: an item was cut" for cut in done.cut]
    faults += [
        f"{path} has {done.found[path]:,} items, and its node counted {count:,}"
        for path, count in expected.items()
        if path in there and done.found[path] < count
    ]
    said = {
        "file": str(out),
        "read": [str(path) for path in there],
        "missing": [str(path) for path in missing],
        "items": done.items,
        "doubles": done.doubles,
        "without_origin": done.without_origin,
        "of_other_crawls": done.of_others,
        "cut": [{"file": str(cut.file), "line": cut.line} for cut in done.cut],
    }
    return Shown(said, faults=faults)


def _named(
    files: list[str], seen: CrawlSnapshot | None
) -> tuple[list[Path], dict[Path, int], list[str]]:
    """The files that are meant, how many items a node has put in each, and faults.

    If that number is 0, the file may be missing. It is not known for a node that has
    not left: the items that it counted last may not be in the file yet.
    """
    named: list[Path] = []
    expected: dict[Path, int] = {}
    for given in files:
        if NODE not in given or seen is None:
            named.append(Path(given))
            continue
        for node in seen.nodes:
            path = Path(given.replace(NODE, node.node_id))
            named.append(path)
            if node.state == "left" and node.figures is not None:
                expected[path] = node.figures.items
    faults = []
    if seen is not None and seen.gone:
        faults.append(
            f"{seen.gone:,} nodes of {seen.crawl_id} left long ago, and their "
            "names are not known any more: name their files"
        )
    by_place = {path.resolve(): path for path in reversed(named)}
    return list(reversed(by_place.values())), expected, faults


def _look(options: CrawlOptions) -> CrawlSnapshot:
    """The crawl and its nodes, without what is in its partitions."""
    from frontier.status.snapshot import assembled, read_crawl

    with options.connected() as store:
        return assembled(read_crawl(store, options.keys(store)), (), ())
