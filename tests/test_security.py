"""What docs/security.md promises is what the code has."""

import importlib
import re
from dataclasses import fields
from pathlib import Path

import pytest
from scrapy.settings import default_settings

from frontier.settings.config import PREFIX, Config

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
NUMBER = re.compile(r"(-?[\d,]+(?:\.\d+)?) ?([KMG]iB)?(?: \(no limit\))?")
DEFAULTS = {PREFIX + field.name.upper(): field.default for field in fields(Config)}


def rows():
    """The rows of the tables of limits: what, limit, where."""
    _, _, section = PAGE.read_text("utf-8").partition("## What is refused")
    section, _, _ = section.partition("\n## ")
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) >= 3 and cells[0] != "what":
            yield cells


ROWS = list(rows())


def there(name):
    """What is called *name*: a setting of ours or Scrapy's, or a constant."""
    if name in DEFAULTS:
        return DEFAULTS[name]
    if name.isupper():
        return getattr(default_settings, name)
    module, _, constant = name.rpartition(".")
    return getattr(importlib.import_module(module), constant)


def named():
    for what, limit, where, *_ in ROWS:
        found = re.fullmatch(r"`([A-Z_]{4,}|frontier\.[\w.]+)`", where)
        if found:
            yield pytest.param(limit, found[1], id=what)


@pytest.mark.parametrize(("limit", "name"), [*named()])
def test_security_page_states_the_limits_of_the_code(limit, name):
    value = there(name)
    number = NUMBER.fullmatch(limit)

    if number is None:  # a limit in words, of a setting that is not a number
        assert not isinstance(value, int | float)
    else:
        said = float(number[1].replace(",", "")) * UNITS[number[2] or ""]
        assert value == said


def test_security_page_names_where_each_limit_is():
    odd = [
        what
        for what, _, where, *_ in ROWS
        if where != "always" and not re.fullmatch(r"`[^`]+`", where)
    ]

    assert len(ROWS) > 40
    assert odd == []
