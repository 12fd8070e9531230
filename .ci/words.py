"""Look for words that our prose does not use; ``words.txt`` has them.

    python .ci/words.py [FILE ...]

Without files: all documents, and of the sources the docstrings, messages and other
texts, and the comments of Lua scripts. A finding is one line, ``file:line: word``, and
what to write instead. Ends with 1 if there is any.

This is no job for codespell, which replaces single words: most of ours are wrong
only beside another one.
"""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_name("words.txt")
CODE = "`"
"""What a pattern begins with that is searched in code words."""
DOCUMENTS = ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md")
SOURCES = (
    "frontier/**/*.py",
    "frontier/**/*.lua",
    "benchmarks/*.py",
    "spiders/*.py",
    "settings/*.py",
)


def rules(text: str) -> list[tuple[re.Pattern[str], str]]:
    """Each pattern of the list, and what to write instead."""
    made = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            left, _, instead = line.partition(" => ")
            words = left.strip().replace(" ", r"[\s#*>-]+")
            pattern = rf"(?<![\w/.-])(?:{words})(?![\w/]|-\w|\.\w)"
            flags = re.IGNORECASE
            if words.startswith(CODE):
                pattern, flags = words, re.RegexFlag(0)
            made.append((re.compile(pattern, flags), instead.strip()))
    return made


def of_python(text: str) -> str:
    """The strings and comments of *text*, each on its line; all else is blank."""
    lines = [""] * (text.count("\n") + 2)
    for token in tokenize.tokenize(BytesIO(text.encode()).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] += token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for number, line in enumerate(node.value.splitlines(), node.lineno - 1):
                if number < len(lines):
                    lines[number] += " " + line
    return "\n".join(lines)


def prose(path: Path) -> str:
    """What people read in *path*, line by line as it stands there."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return of_python(text)
    if path.suffix == ".lua":
        return "\n".join(line.partition("--")[2] for line in text.splitlines())
    blank = lambda found: re.sub(r"[^\n]", " ", found[0])  # noqa: E731 (for two lines)
    return re.sub(r"^```.*?^```", blank, text, flags=re.MULTILINE | re.DOTALL)


def findings(text: str, made: list[tuple[re.Pattern[str], str]]) -> Iterator[str]:
    """``line: word -> instead`` for each of the words in *text*."""
    text = re.sub(r"(?<=\n)[ \t]+", "", text)  # indents: "dead" may end a line
    plain = re.sub(r"(`+)[^`\n]*\1", lambda found: " " * len(found[0]), text)  # names
    for pattern, instead in made:
        searched = text if pattern.pattern.startswith(CODE) else plain
        for found in pattern.finditer(searched):
            said = re.sub(r"\s+", " ", found[0])
            line = text.count("\n", 0, found.start()) + 1
            yield f"{line}: {said!r}: write {instead}"


def main() -> int:
    """Print what is found."""
    made = rules(LIST.read_text("utf-8"))
    paths = [Path(name) for name in sys.argv[1:]] or [
        path for glob in (*DOCUMENTS, *SOURCES) for path in sorted(ROOT.glob(glob))
    ]
    found = [
        f"{path.resolve().relative_to(ROOT)}:{finding}"
        for path in paths
        for finding in findings(prose(path), made)
    ]
    print("\n".join(found) if found else f"{len(paths)} files: none of our words")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
