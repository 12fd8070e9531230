"""What the documentation says of reasons, and which of them outweighs which."""

import re
from pathlib import Path

from frontier.explain.checks import REASONS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_reason_is_documented_and_every_documented_one_exists():
    text = (DOCS / "cli.md").read_text("utf-8")
    table = text.partition("| reason | the URL |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]

    said = [word for row in rows for word in re.findall(r"`(\w+)`", row)]

    assert sorted(said) == sorted(REASONS)
