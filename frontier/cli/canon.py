"""``frontier canon``: a URL step by step, and two sets of rules compared."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer looks at it
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from frontier.cli.options import Commands, Output
from frontier.cli.output import ExitCode
from frontier.errors import ConfigurationError, InvalidURL
from frontier.files import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


app = Commands("Show and compare the rules that make URLs canonical.")

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


app.in_order("explain", "rules", "compare")
