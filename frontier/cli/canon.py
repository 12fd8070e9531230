"""``frontier canon``: what a URL is, step by step, and what a rule costs."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (typer reads it)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from frontier.cli.canon_check import check
from frontier.cli.options import Json  # noqa: TC001 (typer reads it)
from frontier.cli.output import ExitCode, complain, show, show_json
from frontier.files import open_input

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

app = typer.Typer(help="Rules that make URLs canonical.", no_args_is_help=True)
app.command()(check)

Rules = Annotated[
    str,
    typer.Option(
        "--rules", metavar="NAME|FILE", help="A set, as `canon rules` lists, or TOML."
    ),
]
EXAMPLES = 5
"""Families of URLs that `compare` shows."""
LONGEST = 1 << 20


@app.callback()
def canon() -> None:
    """Rules that make URLs canonical."""


@app.command()
def explain(
    url: Annotated[str, typer.Argument(metavar="URL")],
    rules: Rules = "heritrix",
    as_json: Json = False,
) -> None:
    """Show URL after each step that changes it, and what it is to a crawl then."""
    from frontier.errors import InvalidURL
    from frontier.requests.stored_request import origin_of, queue_key
    from frontier.urls.canon.rulesets import host_of_origin, named
    from frontier.urls.canon.surt import key_of

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
        try:
            surt = key_of(url)
        except InvalidURL as error:
            surt = f"none: {error.reason}"
        host = host_of_origin(origin_of(url), rules)
        said |= {
            "seen_key": form,
            "surt": surt,
            "queue_key": host or queue_key(url, "host"),
        }
    if as_json:
        show_json(said)
    else:
        show(_explained(said))
    if refused is not None:
        raise typer.Exit(ExitCode.FAULTY)


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
def list_rules(as_json: Json = False) -> None:
    """List the sets, their steps and what they are."""
    from frontier.urls.canon.rulesets import NAMED, VERSION

    if as_json:
        show_json(
            {
                "version": VERSION,
                "rules": [
                    {"name": r.name, "steps": list(r.steps), "digest": r.digest}
                    for r in NAMED.values()
                ],
            }
        )
        return
    table = Table(box=None, show_header=True, header_style="bold")
    for column in ("rules", "what they do", "steps"):
        table.add_column(column)
    for one in NAMED.values():
        steps = [step.partition(".")[2] for step in one.steps]
        table.add_row(one.name, one.about, ", ".join(steps))
    show([table])


@app.command()
def compare(
    first: Annotated[str, typer.Argument(metavar="A", help="A set.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="URLs, one a line.")],
    as_json: Json = False,
) -> None:
    """Show which URLs of FILE one of two sets merges and the other does not."""
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
        complain(f"{file}: {getattr(error, 'strerror', None) or error}")
        raise typer.Exit(2) from None
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
    if as_json:
        show_json(said)
    else:
        show(_compared(said))


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
    from frontier.errors import InvalidURL

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
