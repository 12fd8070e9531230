"""Registers and their documents say the same."""

import re
from dataclasses import fields
from importlib.resources import files
from pathlib import Path

import pytest
import typer.main

from frontier.cli import app
from frontier.cli.exits import ExitCode
from frontier.conf import PREFIX, Config
from frontier.store import keys

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def headings(page, level=3):
    text = (DOCS / page).read_text("utf-8")
    return re.findall(rf"^{'#' * level} (.+)$", text, re.MULTILINE)


def plain(value):
    if isinstance(value, tuple):
        value = ",".join(value)
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


def test_every_setting_is_documented_and_every_documented_one_exists():
    names = [PREFIX + field.name.upper() for field in fields(Config)]

    assert headings("settings.md") == names


def test_the_documented_defaults_are_the_defaults():
    text = (DOCS / "settings.md").read_text("utf-8")
    said = dict(re.findall(r"^### (\w+)\n\nDefault: `([^`]*)`", text, re.MULTILINE))

    assert said == {
        PREFIX + field.name.upper(): plain(field.default) for field in fields(Config)
    }


def test_every_key_is_documented_and_every_documented_one_exists():
    classes = (
        keys.RegistryKeys,
        keys.CrawlKeys,
        keys.PartitionKeys,
        keys.CollectionKeys,
    )
    data = {field.name for cls in classes for field in fields(cls)}
    names = [
        name
        for cls in classes
        for name in vars(cls)
        if not name.startswith("_") and name not in data | {"partition"}
    ]

    assert headings("keys.md") == names


def test_every_script_is_documented_and_every_documented_one_exists():
    text = (DOCS / "keys.md").read_text("utf-8")
    said = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    scripts = (files("frontier.store") / "lua").iterdir()

    assert said == sorted(path.name.removesuffix(".lua") for path in scripts)


def test_every_stat_is_documented_and_every_documented_one_exists():
    code = "\n".join(
        path.read_text("utf-8") for path in sorted((ROOT / "frontier").rglob("*.py"))
    )
    used = set(re.findall(r'"(frontier/[a-z]+/[a-z]+)"', code))
    said = re.findall(r"`(frontier/[a-z/]+)`", (DOCS / "stats.md").read_text("utf-8"))

    assert sorted(said) == sorted(used)


def commands(group, path="frontier"):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}"


def test_every_command_is_documented_and_every_documented_one_exists():
    text = (DOCS / "cli.md").read_text("utf-8")
    said = re.findall(r"^\| `(frontier [^`]+)` \|", text, re.MULTILINE)

    assert sorted(said) == sorted(commands(typer.main.get_command(app)))


def test_every_exit_code_is_documented_and_every_documented_one_exists():
    text = (DOCS / "cli.md").read_text("utf-8")
    said = re.findall(r"^\| (\d+) \| `(\w+)` \|", text, re.MULTILINE)

    assert said == [(str(code.value), code.name) for code in ExitCode]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target
