"""Print what people read of the program: log lines, errors, what commands say, help.

    python .ci/messages.py [PATH-PREFIX]

A line has the place and the text, with each value that is put into it as its code, so
that all of them can be read, and mended, in one sitting.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAID = {"say", "complain", "warn", "Exit", "file", "record", "line"} | {
    *("debug", "info", "warning", "error", "exception", "critical", "log")
}
"""Functions and methods whose texts are for people."""
DECLARED = {"option", "flag", "argument", "End"}
"""Those all of whose texts are."""


def text_of(node: ast.expr) -> str:
    """The text that *node* makes; ``""`` if it makes none."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value)
            if isinstance(part, ast.Constant)
            else ast.unparse(ast.JoinedStr([part]))[2:-1]
            for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return ""


def texts(node: ast.AST) -> Iterator[ast.expr]:
    """What of *node* is said to people."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in DECLARED:
            yield from node.args
        elif name in SAID or name.endswith("__init__"):
            yield from node.args[:2]
        yield from (one.value for one in node.keywords if one.arg == "help")
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        yield from node.exc.args
    elif isinstance(node, ast.FunctionDef) and ast.unparse(node.args)[:6] == "given:":
        yield ast.Constant(ast.get_docstring(node), lineno=node.lineno)  # a command


def main() -> None:
    """Print them, by file and line."""
    prefix = sys.argv[1] if len(sys.argv) > 1 else "frontier"
    for path in sorted((ROOT / "frontier").rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if not name.startswith(prefix):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for one in texts(node):
                if " " in (text := " ".join(text_of(one).split())):
                    sys.stdout.write(f"{name}:{one.lineno}: {text}\n")


if __name__ == "__main__":
    main()
