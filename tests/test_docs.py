"""Registers and their documents say the same."""

import ast
import re
import runpy
from dataclasses import fields
from fnmatch import fnmatch
from pathlib import Path

from frontier.cli import app
from frontier.cli.command import POSITIONAL
from frontier.cli.output import ExitCode
from frontier.settings.config import PREFIX, Config
from tests.harness.cases import each
from tests.test_architecture import LAYERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
OUTSIDE = [
    ROOT / name
    for name in (
        "README.md",
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    )
]
EXAMPLES = sorted((ROOT / "examples").rglob("*.md"))
PAGES = [*OUTSIDE, *EXAMPLES, *sorted(DOCS.rglob("*.md"))]
SOURCES = sorted((ROOT / "frontier").rglob("*.py"))
WIDTH = 100
EACH_PAGE = each("page", PAGES)


REFERENCE = runpy.run_path(str(ROOT / ".ci" / "reference.py"))


def expanded(page):
    """A page as it is on the site, with what is made of the code."""
    return REFERENCE["expand"](page.read_text("utf-8"))


def patterns(one):
    """The methods of *one* that name a key."""
    return [name for name, *_ in REFERENCE["patterns_of"](one)]


def read(page):
    return (DOCS / page).read_text("utf-8")


def headings_of(text):
    return re.findall(r"^### (.+)$", text, re.MULTILINE)


def column(page, cell=r"`([^`]+)`"):
    """What the first cells of the tables of *page* have that look like *cell*."""
    return re.findall(rf"^\| {cell} \|", read(page), re.MULTILINE)


def names_of_settings():
    return [PREFIX + field.name.upper() for field in fields(Config)]


def test_generated_reference_is_complete():
    settings = expanded(DOCS / "settings.md")
    keys = expanded(DOCS / "keys.md")
    commands = headings_of(expanded(DOCS / "cli.md"))
    made = [name for one in REFERENCE["KEYS"].values() for name in patterns(one)]

    assert headings_of(settings) == sorted(names_of_settings())
    assert "Default: `15.0`.\n\nHow long a node may be silent" in settings
    assert "Default: `1024`. All nodes of a crawl must agree." in settings
    assert headings_of(keys) == made
    assert keys.count("\n| `queue_") >= 7
    assert "\n| `frontier.queue` | The queue of" in expanded(DOCS / "architecture.md")
    assert sorted(commands) == sorted(["scrapy-redis's start URLs", *COMMANDS])


def test_each_setting_has_a_topic():
    (rows,) = re.findall(r"(?ms)^## By topic\n(.+?)^## ", read("settings.md"))
    said = [PREFIX + name for name in re.findall(r"`([A-Z_*]+)`", rows)]

    for name in names_of_settings():
        assert any(fnmatch(name, pattern) for pattern in said), name
    for pattern in said:
        assert any(fnmatch(name, pattern) for name in names_of_settings()), pattern


@EACH_PAGE
def test_pages_name_only_existing_settings(page):
    said = set(re.findall(rf"`({PREFIX}[A-Z_]+)\b", expanded(page)))

    assert said - {PREFIX, PREFIX + "X", PREFIX + "Y"} <= set(names_of_settings())


def commands(group, path="frontier"):
    for name in group.commands:
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(app))


@each("path", COMMANDS)
def test_every_command_and_every_option_has_help(path):
    assert COMMANDS[path].help
    for parameter in COMMANDS[path].params:
        if parameter.param_type_name == "option":
            assert parameter.help, parameter.name


@each("path", COMMANDS)
def test_every_command_names_its_crawl_alike(path):
    named = [
        parameter.opts
        for parameter in COMMANDS[path].params
        if "CRAWL_ID" in str(parameter.metavar)
    ]

    assert all(options in (["--crawl"], [POSITIONAL]) for options in named)


def test_exit_codes_are_documented_and_exist():
    said = column("cli.md", r"(\d+) \| `(\w+)`")

    assert said == [(str(code.value), code.name) for code in ExitCode]


def test_man_pages_match_the_commands():
    made = runpy.run_path(str(ROOT / ".ci" / "manpages.py"))["pages"]()
    there = {
        path.name: path.read_text("utf-8") for path in (ROOT / "share").rglob("*.1")
    }

    assert [name for name, text in made.items() if " object at 0x" in text] == []
    assert sorted(there) == sorted(made), "make man"
    assert [name for name, text in made.items() if there[name] != text] == [], (
        "make man"
    )


def messages():
    """Every text in the code, each value that is put into it as a NUL."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%[.\d]*[a-z]", "\0", node.value)
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "\0"
                    for part in node.values
                )


def test_docs_show_only_valid_command_lines():
    bare = [
        path
        for path, command in COMMANDS.items()
        if not any(each.param_type_name == "argument" for each in command.params)
    ]
    given = re.compile(rf"\b({'|'.join(bare)})\s+(\0|[A-Z]+\b|\w+-\d+)")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    texts = [*messages(), *(page.read_text("utf-8") for page in pages)]

    assert [found[0] for text in texts for found in given.finditer(text)] == []


def test_troubleshooting_quotes_only_existing_messages():
    code = "\n".join(messages())
    listed = column("troubleshooting.md", r"`([^|]+)`[^|]*")
    values = r"'[^']*'|\b[A-Z]\b|FRONTIER_[XY]|\d+|\bis a\b|finished|the request"
    split = re.compile(rf"{values}|`|\.\.\.|: |; |=")
    parts = [part.strip() for text in listed for part in split.split(text)]
    known = [part for part in parts if len(part) > 10]

    assert len(listed) > 30
    assert [part for part in known if part not in code] == []


def test_architecture_page_lists_the_checked_layers():
    rows = re.findall(
        r"^\| (\w+) \| ((?:`[\w.]+` ?)+) \|", read("architecture.md"), re.MULTILINE
    )

    said = [re.findall(r"[\w.]+", names) for _, names in rows]
    assert said == [sorted(layer) for layer in reversed(LAYERS)]


def test_example_tests_in_pages_exist():
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8") + read("api.md")
    examples = re.findall(r"^```python\n(.+?)```$", page, re.MULTILINE | re.DOTALL)
    tests = [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")]

    assert len(examples) >= 3
    for example in examples:
        assert any(example in text for text in tests), example


def anchors(page):
    """What GitHub makes of the headings of *page*."""
    for heading in re.findall(r"^#+ (.+)$", expanded(page), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@EACH_PAGE
def test_links_are_not_broken(page):
    code = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    prose = code.sub("", expanded(page))
    for target in re.findall(r"\]\(([^)]+)\)", prose):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.is_file(), f"{target}: the site has files only"
        if anchor:
            assert anchor in set(anchors(there)), target


@EACH_PAGE
def test_prose_fits_100_columns(page):
    wide = [
        line
        for line in page.read_text("utf-8").splitlines()
        if len(line) > WIDTH and not line.startswith("|")
    ]

    assert wide == []
