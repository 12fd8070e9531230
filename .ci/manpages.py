"""Write the man pages from the commands: ``make man``.

    python .ci/manpages.py [DIRECTORY]

``frontier.1``, and one page for each noun with all its verbs, in ``share/man/man1``,
which the wheel installs. `tests/test_docs.py` compares them with the commands.
click-man does not write arguments, examples and exit codes (docs/decisions/tests.md).
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from click import Context

from frontier.cli import app
from frontier.cli.output import ExitCode

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "share" / "man" / "man1"
DATE = "2026-11-23"
"""Of the pages: mandoc wants one. A release sets it."""
NAME = "frontier"
WIDTH = 70
VARIABLE = re.compile(r"env var: (\w+)")


def pages() -> dict[str, str]:
    """The text of each page, by its file name."""
    context = Context(app, info_name=NAME, **app.context_settings)
    commands: dict[str, Any] = _made(app)
    made = {f"{NAME}.1": _page(NAME, _of_all(app, context, commands))}
    for name, command in commands.items():
        below = Context(command, info_name=name, parent=context)
        page = f"{NAME}-{name}"
        made[f"{page}.1"] = _page(page, _of_one(page, command, below))
    return made


def _page(page: str, body: Iterator[str]) -> str:
    head = f'.TH {_plain(page.upper())} 1 "{DATE}" "{NAME}" "{NAME}"'
    return "\n".join([head, *body]) + "\n"


def _made(group: Any) -> dict[str, Any]:
    """The commands of *group*, if it is one, by name."""
    names = getattr(group, "commands", ())
    return {name: group.get_command(None, name) for name in names}


def _of_all(main: Any, context: Context, commands: dict[str, Any]) -> Iterator[str]:
    """The page about the program."""
    yield from _heading(NAME, main)
    yield f".B {NAME}"
    yield r".I COMMAND"
    yield r"[\fIARGUMENTS\fR]"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(main.help)
    yield ".PP"
    yield "Each command is on a page of its own, with its options."
    yield ".SH COMMANDS"
    for name, command in commands.items():
        yield from (".TP", rf".BR {NAME}\-{name} (1)", _prose(_first(command)))
    yield ".SH OPTIONS"
    yield from _options(main, context)
    yield ".SH ENVIRONMENT"
    for name, text in sorted(_variables(commands, context).items()):
        yield from (".TP", f".B {name}", _prose(text))
    yield '.SH "EXIT STATUS"'
    for code, meaning in _exit_codes():
        yield from (".TP", f".B {code}", _prose(meaning))
    yield ".SH FILES"
    yield from (".TP", ".I .frontier", "The embedded store, the state and the logs.")
    yield from (".TP", ".I warcs", "The WARC files.")


def _of_one(page: str, command: Any, context: Context) -> Iterator[str]:
    """The page about a command, or about a noun with its verbs."""
    verbs = _made(command)
    below = {
        verb: (each, Context(each, info_name=verb, parent=context))
        for verb, each in verbs.items()
    } or {"": (command, context)}
    yield from _heading(page, command)
    for number, (verb, (each, inner)) in enumerate(below.items()):
        if number:
            yield ".br"
        yield rf"\fB{_plain(' '.join([*page.split('-', 1), verb]).strip())}\fR"
        yield _usage(each, inner)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command.help)
    for verb, (each, inner) in below.items():
        if verb:
            yield f'.SH "{_plain(" ".join([*page.split("-", 1), verb]).upper())}"'
            yield from _paragraphs(each.help)
        yield from _options(each, inner)
    yield '.SH "EXIT STATUS"'
    yield from ("That of all commands, in", f".BR {NAME} (1).")
    yield from ('.SH "SEE ALSO"', f".BR {NAME} (1)")


def _heading(page: str, command: Any) -> Iterator[str]:
    yield from (".SH NAME", _prose(f"{page} - {_first(command).rstrip('.')}"))
    yield ".SH SYNOPSIS"


def _first(command: Any) -> str:
    """The first sentence of the help of *command*."""
    return " ".join(command.help.split("\n\n")[0].split())


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        yield _prose(paragraph)


def _usage(command: Any, context: Context) -> str:
    pieces = [_plain(piece) for piece in command.collect_usage_pieces(context) if piece]
    return " ".join(rf"\fI{piece}\fR" for piece in pieces)


def _options(command: Any, context: Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None:
            continue
        names, text = record
        if parameter.param_type_name == "argument":
            text = parameter.help
        if text:  # an argument with none stands in the synopsis
            yield from (
                ".TP",
                rf"\fB{_plain(names)}\fR",
                _prose(text),
            )


def _variables(commands: dict[str, Any], context: Context) -> dict[str, str]:
    """Each variable of the environment that an option reads, and what for."""
    found: dict[str, str] = {}
    for name, command in commands.items():
        below = Context(command, info_name=name, parent=context)
        if hasattr(command, "commands"):
            found |= _variables(_made(command), below)
        for parameter in command.get_params(below):
            _, text = parameter.get_help_record(below) or ("", "")
            if variable := VARIABLE.search(text):
                option = parameter.opts[0]
                found[variable[1]] = f"The same as {option}: {parameter.help}"
    return found


def _exit_codes() -> list[tuple[str, str]]:
    """Each exit code and its meaning, as the documentation has them."""
    table = (ROOT / "docs" / "cli.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `\w+` \| (.+) \|$", table, re.MULTILINE)
    if [int(code) for code, _ in rows] != [code.value for code in ExitCode]:
        raise SystemExit("docs/cli.md does not have each exit code once")
    return [
        (code, re.sub(r"`|\[([^]]+)\]\([^)]+\)", r"\1", said)) for code, said in rows
    ]


def _prose(text: str) -> str:
    """*text* in lines that are short enough for people who read roff."""
    lines = textwrap.wrap(text, WIDTH, break_on_hyphens=False, break_long_words=False)
    return "\n".join(_plain(line) for line in lines)


def _plain(text: str) -> str:
    """*text* as roff prints it: no escapes, no requests, no letters it lacks."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in text)
    return rf"\&{text}" if text[:1] in {".", "'"} else text


def main() -> None:
    """Write the pages, and remove those of commands that are gone."""
    place = Path(sys.argv[1]) if sys.argv[1:] else PLACE
    place.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in place.glob("*.1"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (place / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
