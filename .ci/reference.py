"""What the site has in the place of the blocks ``reference`` of its pages.

A block has one line: what it stands for, one of `MAKERS`. The text is Markdown, made of
the tables, docstrings and headers in the code, where each thing is said once.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Iterator
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from frontier.cli import app
from frontier.cluster.shared_settings import crawl_settings
from frontier.metrics.crawl import CRAWL
from frontier.metrics.node import NODE
from frontier.settings import config
from frontier.settings.config import PREFIX, Config
from frontier.store import keys

ROOT = Path(config.__file__).parents[1]
BLOCK = re.compile(r"^```reference\n(.+)\n```$", re.MULTILINE)
KEYS = {
    "namespace": keys.RegistryKeys("<namespace>"),
    "crawl": keys.CrawlKeys("<namespace>", "<crawl>"),
    "partition": keys.PartitionKeys("{<namespace>:<crawl>:<partition>}:"),
    "collection": keys.CollectionKeys(""),
}


def expand(page: str) -> str:
    """The text *page*, with what its blocks stand for."""
    return BLOCK.sub(lambda found: "\n".join(MAKERS[found[1]]()), page)


def settings() -> Iterator[str]:
    """Each setting: its default, and the docstring of its field."""
    shared = crawl_settings(Config())
    said = texts_of_settings()
    for one in sorted(fields(Config), key=lambda each: each.name.upper()):
        name = PREFIX + one.name.upper()
        checked = " All nodes of a crawl must agree." if name in shared else ""
        yield f"### {name}\n\nDefault: `{spelled(one.default)}`.{checked}\n"
        yield said[one.name] + "\n"


def texts_of_settings() -> dict[str, str]:
    """The docstring of each field of `Config`, which Python itself forgets."""
    return {name: text for name, text, _ in attributes(Config)}


def attributes(cls: type) -> Iterator[tuple[str, str, list[str]]]:
    """The attributes and methods of *cls*: name, docstring and parameters."""
    tree = ast.parse(Path(inspect.getfile(cls)).read_text("utf-8"))
    (body,) = (
        node.body
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__
    )
    for node, behind in itertools.pairwise([*body, None]):
        text: Any = behind
        match node:
            case ast.FunctionDef():
                said = inspect.cleandoc(ast.get_docstring(node) or "")
                yield node.name, said, [one.arg for one in node.args.args[1:]]
            case (
                ast.AnnAssign(target=ast.Name(id=name))
                | ast.Assign(targets=[ast.Name(id=name)])
            ) if isinstance(text, ast.Expr):
                yield name, inspect.cleandoc(text.value.value), []  # type: ignore[attr-defined]


def spelled(value: Any) -> str:
    """A default as it would stand in a settings module."""
    if isinstance(value, tuple):
        value = ",".join(value)
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def patterns_of(one: Any) -> Iterator[tuple[str, str, str]]:
    """Each key that *one* names: by what, the name, and what is said of it."""
    data = {"born", "partition", "prefix", "tagged"}
    for name, text, parameters in attributes(type(one)):
        if not name.startswith("_") and name not in data:
            found = getattr(one, name)
            if parameters:
                found = found(*(f"<{each}>" for each in parameters))
            yield name, found, text


def keys_of(kind: str) -> Iterator[str]:
    """The keys of a *kind*, each with its docstring."""
    for name, pattern, text in patterns_of(KEYS[kind]):
        yield f"### {name}\n\n`{pattern}`\n\n{text.replace('``', '`')}\n"


def scripts() -> Iterator[str]:
    """Each script, and the first line of its header."""
    yield "| script | does |\n|---|---|"
    place = files("frontier.store") / "lua"
    for path in sorted(place.iterdir(), key=lambda each: each.name):
        if path.name.endswith(".lua"):
            name, _, does = path.read_text("utf-8").split("\n", 1)[0].partition(": ")
            yield f"| `{name.removeprefix('-- ')}` | {does} |"


def commands() -> Iterator[str]:
    """Each command with its options, as its help has them."""
    for path, command in leaves(app):
        yield f"### {path}\n\n{paragraphs(command.help)}\n"
        rows = [row for one in command.params if (row := option(one))]
        if rows:
            yield "\n".join(["| option | does |\n|---|---|", *rows, ""])


def leaves(group: Any, path: str = "frontier") -> Iterator[tuple[str, Any]]:
    """The commands of *group* and of the nouns in it, by what one types."""
    for name in group.commands:
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from leaves(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def option(one: Any) -> str:
    """A row of the table; nothing for what each command has."""
    if one.param_type_name != "option" or one.name in {"help", "version"}:
        return ""
    return f"| `{', '.join(one.opts)}` | {escaped(one.help or '')} |"


def paragraphs(text: str | None) -> str:
    """A help text, without what only a terminal understands."""
    return escaped(inspect.cleandoc((text or "").replace("\b", "")))


def escaped(text: str) -> str:
    """*text* as Markdown shows it: no placeholder is an element of HTML."""
    return text.replace("<", "&lt;").replace("|", "\\|")


def metrics(known: Any) -> Iterator[str]:
    """Each of the *known* metrics."""
    yield "| metric | type | labels | meaning |\n|---|---|---|---|"
    for metric in known:
        labels = listed(metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.about} |"


def listed(names: Any) -> str:
    """*names* in a cell of a table."""
    return ", ".join(f"`{name}`" for name in names) or " "


def packages() -> Iterator[str]:
    """Each package, and the first line of its docstring."""
    yield "| package | is |\n|---|---|"
    for path in sorted(ROOT.glob("*/__init__.py")):
        about = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        yield f"| `frontier.{path.parent.name}` | {about.splitlines()[0]} |"


MAKERS = {
    "packages": packages,
    "settings": settings,
    "scripts": scripts,
    "commands": commands,
    "metrics of nodes": lambda: metrics(NODE),
    "metrics of crawls": lambda: metrics(CRAWL),
    **{f"keys of a {kind}": lambda kind=kind: keys_of(kind) for kind in KEYS},
}
