"""``frontier canon check``: an index beside the rules of its WARC files."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.options import Json  # noqa: TC001 (typer reads it)
from frontier.cli.output import ExitCode, complain, say, show, show_json
from frontier.cli.progress import bar
from frontier.errors import ConfigurationError, SourceBroken

if TYPE_CHECKING:
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


def check(
    index: Annotated[Path, typer.Argument(metavar="INDEX")],
    warcs: Annotated[
        list[Path] | None, typer.Argument(metavar="[WARC]...", show_default=False)
    ] = None,
    rules: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Compare with this set, not with those of the WARC files; pywb: "
            "with the keys that pywb looks up.",
        ),
    ] = "",
    rekey: Annotated[
        bool, typer.Option("--rekey", help="Write the index with the right keys.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to (default: beside INDEX)."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite that file if it is there.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the entries of INDEX whose key is another under the WARC files' rules.

    INDEX is a CDXJ, a CDX or a WACZ, plain or in gzip; a WACZ has WARC files in it.
    """
    from frontier.collection.rekey import Rekeying

    plan = _planned(index, warcs or [], rules)
    target = (out or _beside(index, plan.name)) if rekey else None
    if target is not None and plan.by_file is not None and plan.differ:
        text = "say with --rules to which its WARC files' rules differ"
        raise ConfigurationError(f"{index}: cannot be re-keyed: {text}")
    if target is not None and target.exists() and not force:
        raise ConfigurationError(f"{target} is there; add --force to overwrite it")
    try:
        comparison = Rekeying(index, plan.rules, plan.by_file)
    except SourceBroken as error:
        raise ConfigurationError(str(error)) from None
    listed: list[Change] = []
    try:
        _compare(comparison, listed, as_json=as_json)
        _judge(plan, comparison.seen)
        written = 0
        if target is not None:
            written = _rekeyed(comparison, target, force=force)
    except SourceBroken as error:
        complain(str(error))
        raise typer.Exit(ExitCode.INCOMPLETE) from None
    except OSError as error:
        raise ConfigurationError(f"{target}: {error.strerror or error}") from None
    finally:
        comparison.close()
    _told(plan, comparison.seen, listed, target, written, as_json=as_json)
    if plan.broken or comparison.seen.wrong or comparison.seen.too_long:
        raise typer.Exit(ExitCode.INCOMPLETE)
    if not rekey and (comparison.seen.changed or plan.differ):
        raise typer.Exit(ExitCode.FAULTY)


def _planned(index: Path, warcs: list[Path], rules: str) -> _Plan:
    from frontier.collection.rekey import PYWB, rules_of_files
    from frontier.errors import RulesBroken
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


def _compare(comparison: Rekeying, listed: list[Change], *, as_json: bool) -> None:
    with bar("lines", None) as progress:
        for change in comparison.changes(progress):
            if len(listed) < LISTED:
                listed.append(change)
            if not as_json:
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
    return comparison.write(target, force=force)


def _beside(index: Path, rules: str) -> Path:
    stem = index.name.removesuffix(".gz")
    stem, dot, suffix = stem.rpartition(".")
    if suffix not in {"cdx", "cdxj"}:
        suffix = "cdxj"
    name = Path(rules).stem if rules.endswith(".toml") else rules
    return index.with_name(f"{stem if dot else index.name}.{name}.{suffix}")


def _told(
    plan: _Plan,
    seen: Seen,
    listed: list[Change],
    target: Path | None,
    written: int,
    *,
    as_json: bool,
) -> None:
    facts: dict[str, Any] = {
        "entries": seen.entries,
        "changed": seen.changed,
        "unknown": seen.unknown,
        "wrong": seen.wrong,
        "unsorted": seen.unsorted,
    }
    if as_json:
        more = {"changes": [c._asdict() for c in listed], "warnings": plan.warnings}
        written_to = {"file": str(target), "lines": written} if target else None
        rules = plan.rules.name if plan.rules is not None else plan.name or None
        show_json({"rules": rules, **facts, **more, "rekeyed": written_to})
        return
    under = plan.name or "the rules of its WARC files"
    text = (
        f"{seen.changed:,} of {seen.entries:,} entries have another key under {under}"
    )
    show([Text(text)])
    if target is not None:
        show([Text(f"{target}: {written:,} lines")])
