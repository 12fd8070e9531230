"""``frontier canon``: a URL step by step, what a rule costs, an index and its rules."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from frontier.cli.options import Commands, Force, Output
from frontier.cli.output import ExitCode, bar, complain, say
from frontier.errors import ConfigurationError, InvalidURL, RulesBroken, SourceBroken
from frontier.files import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from rich.console import RenderableType

    from frontier.cdx.declared_rules import Declared
    from frontier.collection.rekey import Change, Rekeying, Seen
    from frontier.urls.canon.rulesets import RuleSet


LISTED = 1_000
"""Changes that are in the JSON; the text has all."""


@dataclass(slots=True)
class _Plan:
    """Which rules an index is compared with, and what was found on the way."""

    rules: RuleSet | None = None
    name: str = ""
    by_file: dict[str, RuleSet] | None = None
    warnings: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    differ: bool = False

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        complain(f"warning: {text}")

    def leave_out(self, text: str) -> None:
        self.broken.append(text)
        complain(f"left out: {text}")


Rekey = Annotated[
    bool, typer.Option("--rekey", help="Write the index with the right keys.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Where to write it (default: beside INDEX)."
    ),
]


def check(
    output: Output,
    index: Annotated[Path, typer.Argument(metavar="INDEX")],
    warcs: Annotated[
        list[Path] | None, typer.Argument(metavar="WARC", show_default=False)
    ] = None,
    rules: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Compare with this rule set, not with the WARC files' own; pywb: "
            "with the keys that pywb looks up.",
        ),
    ] = "",
    rekey: Rekey = False,
    out: Out = None,
    force: Force = False,
) -> None:
    """List the entries of an index whose key differs under the WARC files' rules.

    INDEX is a CDXJ, a CDX or a WACZ, plain or in gzip. A WACZ brings its WARC files.
    """
    plan = _planned(index, warcs or [], rules)
    target = _target(plan, index, out, force=force) if rekey else None
    listed: list[Change] = []
    written = 0
    with _comparison(index, plan) as comparison:
        _compare(comparison, listed, output)
        _judge(plan, comparison.seen)
        if target is not None:
            written = _rekeyed(comparison, target, force=force)
    seen = comparison.seen
    facts = _facts(plan, seen, listed, target, written)
    output.result(facts, _told(plan, seen, target, written))
    if plan.broken or seen.wrong or seen.too_long:
        raise typer.Exit(ExitCode.INCOMPLETE)
    if not rekey and (seen.changed or plan.differ):
        raise typer.Exit(ExitCode.FAULTY)


def _target(plan: _Plan, index: Path, out: Path | None, *, force: bool) -> Path:
    """Where the index is written with the right keys.

    Raises:
        ConfigurationError: There is a file, or the rules are not one set.
    """
    if plan.by_file is not None and plan.differ:
        text = "say with --rules to which its WARC files' rules differ"
        raise ConfigurationError(f"{index}: cannot be re-keyed: {text}")
    target = out or _beside(index, plan.name)
    if target.exists() and not force:
        raise ConfigurationError(f"{target} is there; add --force to overwrite it")
    return target


@contextmanager
def _comparison(index: Path, plan: _Plan) -> Iterator[Rekeying]:
    """The comparison of *index* with its rules, while it lasts; its errors are told."""
    from frontier.collection.rekey import Rekeying

    try:
        comparison = Rekeying(index, plan.rules, plan.by_file)
    except SourceBroken as error:
        raise ConfigurationError(str(error)) from None
    try:
        yield comparison
    except SourceBroken as error:
        complain(str(error))
        raise typer.Exit(ExitCode.INCOMPLETE) from None
    finally:
        comparison.close()


def _planned(index: Path, warcs: list[Path], rules: str) -> _Plan:
    from frontier.collection.rekey import PYWB, rules_of_files
    from frontier.urls.canon.rulesets import named

    plan = _Plan()
    if index.suffix == ".wacz":
        warcs = [index, *warcs]
    said = rules_of_files(warcs, plan.leave_out)
    _warn_of_files(plan, said)
    if rules:
        plan.name = rules
        plan.rules = None if rules == PYWB else named(rules)
        return plan
    known: dict[str, RuleSet] = {}
    plan.by_file = {}
    for one in said:
        if not one.name:
            continue
        try:
            found = known.setdefault(one.digest, one.rules())
        except RulesBroken as error:
            plan.leave_out(str(error))
            continue
        plan.by_file[_basename(one.file)] = found
    if not plan.by_file:
        text = "no WARC file says which rules it is under; name them with --rules"
        raise ConfigurationError(f"{index}: {text}")
    if len(known) == 1:
        plan.rules = next(iter(known.values()))
        plan.name = plan.rules.name
    return plan


def _basename(name: str) -> str:
    return name.rpartition("/")[2]


def _warn_of_files(plan: _Plan, said: list[Declared]) -> None:
    by_label = sorted(said, key=lambda one: one.label)
    groups = [(label, list(g)) for label, g in groupby(by_label, lambda d: d.label)]
    plan.differ = len(groups) > 1
    if plan.differ:
        each = "; ".join(
            f"{label}: {len(files):,} of them, as {_basename(files[0].file)}"
            for label, files in groups
        )
        plan.warn(f"the WARC files were made under different rules: {each}")


def _compare(comparison: Rekeying, listed: list[Change], output: Output) -> None:
    with bar("lines", None) as progress:
        for change in comparison.changes(progress):
            if len(listed) < LISTED:
                listed.append(change)
            if not output.as_json:
                line = f"{change.before} -> {change.after}  {change.url}"
                print(_printable(line))  # there may be millions


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _judge(plan: _Plan, seen: Seen) -> None:
    """Warn of what the index says, and of what is odd in it."""
    stated = seen.stated
    wanted = plan.rules.digest if plan.rules is not None else ""
    if stated is not None and stated.digest != wanted:
        plan.differ = True
        label = plan.name or "several"
        plan.warn(f"the index is under {stated.label}, and compared with {label}")
    for count, text in (
        (seen.unknown, "entries lead to files whose rules are not known"),
        (seen.unsorted, "entries are not in the order of their bytes"),
        (seen.wrong, "lines are not entries"),
        (seen.too_long, "lines are too long to be read"),
    ):
        if count:
            plan.warn(f"{count:,} {text}")


def _rekeyed(comparison: Rekeying, target: Path, *, force: bool) -> int:
    say(f"writing {target}")
    try:
        return comparison.write(target, force=force)
    except OSError as error:
        raise ConfigurationError(f"{target}: {error.strerror or error}") from None


def _beside(index: Path, rules: str) -> Path:
    stem = index.name.removesuffix(".gz")
    stem, dot, suffix = stem.rpartition(".")
    if suffix not in {"cdx", "cdxj"}:
        suffix = "cdxj"
    name = Path(rules).stem if rules.endswith(".toml") else rules
    return index.with_name(f"{stem if dot else index.name}.{name}.{suffix}")


def _facts(
    plan: _Plan, seen: Seen, listed: list[Change], target: Path | None, written: int
) -> dict[str, Any]:
    return {
        "rules": plan.rules.name if plan.rules is not None else plan.name or None,
        "entries": seen.entries,
        "changed": seen.changed,
        "unknown": seen.unknown,
        "wrong": seen.wrong,
        "unsorted": seen.unsorted,
        "changes": [change._asdict() for change in listed],
        "warnings": plan.warnings,
        "rekeyed": {"file": str(target), "lines": written} if target else None,
    }


def _told(
    plan: _Plan, seen: Seen, target: Path | None, written: int
) -> Iterator[RenderableType]:
    under = plan.name or "the rules of its WARC files"
    changed = f"{seen.changed:,} of {seen.entries:,} entries"
    yield Text(f"{changed} have another key under {under}")
    if target is not None:
        yield Text(f"{target}: {written:,} lines")


app = Commands("Show, compare and check the rules that make URLs canonical.")

Rules = Annotated[
    str,
    typer.Option(
        "--rules",
        metavar="NAME|FILE",
        help="A rule set of `canon rules`, or a TOML file.",
    ),
]
EXAMPLES = 5
"""Families of URLs that `compare` shows."""
LONGEST = 1 << 20


@app.command()
def explain(
    output: Output,
    url: Annotated[str, typer.Argument(metavar="URL")],
    rules: Rules = "heritrix",
) -> None:
    """Show a URL after each step that changes it, and the keys that result."""
    from frontier.urls.canon.rulesets import named

    chosen = named(rules)
    form, steps, refused = url, list[tuple[str, str]](), None
    for name, step in chosen.one_by_one():
        try:
            made = step(form)
        except InvalidURL as error:
            refused = f"{name}: {error.reason}"
            break
        if made != form:
            steps.append((name, made))
        form = made
    said: dict[str, Any] = {"url": url, "rules": chosen.name, "refused": refused}
    said["steps"] = [{"step": name, "url": made} for name, made in steps]
    if refused is None:
        said |= {"seen_key": form, **_keys(url, rules)}
    output.result(said, _explained(said))
    if refused is not None:
        raise typer.Exit(ExitCode.FAULTY)


def _keys(url: str, rules: str) -> dict[str, str]:
    """Under which keys an index and the queues have *url*."""
    from frontier.urls.canon.rulesets import host_of_origin
    from frontier.urls.canon.surt import key_of
    from frontier.urls.partition import origin_of, queue_key

    try:
        surt = key_of(url)
    except InvalidURL as error:
        surt = f"none: {error.reason}"
    host = host_of_origin(origin_of(url), rules)
    return {"surt": surt, "queue_key": host or queue_key(url, "host")}


def _explained(said: dict[str, Any]) -> Iterator[Text]:
    width = max([len(step["step"]) for step in said["steps"]] + [len("queue key")])
    yield Text(f"{'':{width}}  {said['url']}")
    before = said["url"]
    for step in said["steps"]:
        yield Text(f"{step['step']:{width}}  ", "cyan") + _changed(before, step["url"])
        before = step["url"]
    if said["refused"] is not None:
        yield Text(f"refused by {said['refused']}", "red")
        return
    for name in ("seen key", "surt", "queue key"):
        yield Text(f"{name:{width}}  ", "bold") + Text(said[name.replace(" ", "_")])


def _changed(before: str, after: str) -> Text:
    """*after*, with what is not at the same place in *before* in colour."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    most = min(len(before), len(after)) - start
    while end < most and before[-1 - end] == after[-1 - end]:
        end += 1
    middle = after[start : len(after) - end]
    text = Text(after[:start])
    text.append(middle, "yellow")
    return text + Text(after[len(after) - end :]) if end else text


@app.command("rules")
def list_rules(output: Output) -> None:
    """List the rule sets and their steps."""
    from frontier.urls.canon.rulesets import NAMED, VERSION

    table = Table(box=None, show_header=True, header_style="bold")
    for column in ("rules", "what they do", "steps"):
        table.add_column(column)
    for one in NAMED.values():
        steps = [step.partition(".")[2] for step in one.steps]
        table.add_row(one.name, one.about, ", ".join(steps))
    rules = [
        {"name": r.name, "steps": list(r.steps), "digest": r.digest}
        for r in NAMED.values()
    ]
    output.result({"version": VERSION, "rules": rules}, [table])


@app.command()
def compare(
    output: Output,
    first: Annotated[str, typer.Argument(metavar="A", help="A rule set.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="URLs, one a line.")],
) -> None:
    """Show which URLs of a file one of two rule sets merges and the other does not."""
    from frontier.urls.canon.rulesets import named

    sets = {name: named(name) for name in dict.fromkeys((first, second))}
    forms: dict[str, dict[str, list[str]]] = {name: {} for name in sets}
    refused = dict.fromkeys(sets, 0)
    urls = 0
    try:
        with open_input(file) as lines:
            for line in _lines(lines):
                url = line.decode("utf-8", "surrogateescape").strip()
                if url:
                    urls += 1
                    _sort(url, sets, forms, refused)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{file}: {reason}") from None
    said: dict[str, Any] = {"urls": urls}
    for name, other in ((first, second), (second, first)):
        merged = [
            family
            for family in forms[name].values()
            if len({_form(url, sets[other]) for url in family}) > 1
        ]
        said[name] = {
            "distinct": len(forms[name]),
            "refused": refused[name],
            "merges_more": sum(len(family) - 1 for family in merged),
            "examples": [family[:3] for family in merged[:EXAMPLES]],
        }
    output.result(said, _compared(said))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of *file*, each no longer than `LONGEST`: the rest is left out."""
    while line := file.readline(LONGEST):
        yield line
        while not line.endswith(b"\n") and (line := file.readline(LONGEST)):
            pass


def _sort(
    url: str,
    sets: dict[str, Any],
    forms: dict[str, dict[str, list[str]]],
    refused: dict[str, int],
) -> None:
    for name, rules in sets.items():
        form = _form(url, rules)
        if form is None:
            refused[name] += 1
        else:
            forms[name].setdefault(form, []).append(url)


def _form(url: str, rules: Any) -> str | None:
    try:
        form: str = rules.apply(url)
    except InvalidURL:
        return None
    return form


def _compared(said: dict[str, Any]) -> Iterator[Any]:
    table = Table(box=None, header_style="bold")
    for column in ("rules", "distinct", "refused", "merged that the other tells apart"):
        table.add_column(column, justify="left" if column == "rules" else "right")
    names = [name for name in said if name != "urls"]
    for name in names:
        row = said[name]
        table.add_row(
            name,
            f"{row['distinct']:,}",
            f"{row['refused']:,}",
            f"{row['merges_more']:,}",
        )
    yield Text(f"{said['urls']:,} URLs")
    yield table
    for name in names:
        for family in said[name]["examples"]:
            yield Text(f"{name} merges", "cyan")
            for url in family:
                yield Text(f"  {url}")


app.command()(check)


app.in_order("explain", "rules", "compare", "check")
