"""Count the names, operators and literals of Python trees.

    python .ci/size.py [DIRECTORY ...]        default: those of budget.toml

Neither blank lines nor comments nor docstrings count. Tokens do not shrink where lines
are joined or names are shortened, so they say whether a change needs less.
`budget.toml` has how many each directory may have; `tests/test_architecture.py` holds
it.
"""

import io
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = Path(__file__).with_name("budget.toml")
UNCOUNTED = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def tokens(path: Path) -> int:
    """How many tokens the module at *path* has.

    A statement that is nothing but a string is a docstring, or documents a name.
    """
    lines = io.StringIO(path.read_text("utf-8"))
    count, statement = 0, []
    for each in tokenize.generate_tokens(lines.readline):
        if each.type == tokenize.NEWLINE:
            count += len(statement) if statement != [tokenize.STRING] else 0
            statement = []
        elif each.type not in UNCOUNTED:
            statement.append(each.type)
    return count


def of_directory(name: str) -> int:
    """How many tokens all modules below *name* have."""
    return sum(tokens(path) for path in sorted((ROOT / name).rglob("*.py")))


def budget() -> dict[str, int]:
    """How many tokens each directory may have."""
    found: dict[str, int] = tomllib.loads(BUDGET.read_text())["tokens"]
    return found


if __name__ == "__main__":
    most = budget()
    for name in sys.argv[1:] or most:
        told = f"of at most {most[name]:,}" if name in most else ""
        print(f"{name:12}{of_directory(name):10,} {told}".rstrip())
