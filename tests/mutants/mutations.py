"""The mutants of a module: each is its source with one expression or statement changed.

Only the mutated piece is written anew, so the difference is as small as the change.
Left alone are strings, calls of loggers and what is raised, as a message has no test
of its own; a false value that is returned, as most callers cannot tell it from `None`;
constants of a module, as a test of their value would only repeat it; types,
docstrings, assertions (``strict=`` is one) and what is for the type checker only.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitXor,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
"""``|`` is left out: it joins dicts, sets and types more often than bits."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file."""

    path: str
    """Of the file, from the root of the repository."""
    line: int
    """The first line that is changed, from 1."""
    lines: frozenset[int]
    """Of what is changed; empty if it is done when the module is imported."""
    original: str
    """The whole file without the change."""
    source: str
    """The whole file with it."""
    was: str
    becomes: str

    @property
    def difference(self) -> str:
        """The lines that differ, without their numbers."""
        old, new = self.original.splitlines(), self.source.splitlines()
        _, _, *lines = unified_diff(old, new, n=0, lineterm="")
        return "\n".join(line for line in lines if not line.startswith("@@")).strip()

    @property
    def in_context(self) -> str:
        """The same below the line before it, which tells it from others like it."""
        before = self.original.splitlines()[: self.line - 1]
        last = next((line for line in reversed(before) if line.strip()), "")
        return f" {last}\n{self.difference}"


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Every mutant of *source*, in its order."""
    return list(_Mutator(path, source).mutants())


class _Mutator:
    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source.encode()
        lines = self._source.splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._is_inside = False
        """Whether what is visited is in a function."""

    def mutants(self) -> Iterator[Mutant]:
        yield from self._visit(ast.parse(self._source))

    def _visit(self, node: ast.AST) -> Iterator[Mutant]:
        if _is_left_alone(node):
            return
        if not self._is_inside and _is_constant(node):
            return
        if isinstance(node, ast.stmt):
            yield from self._of_statement(node)
        elif isinstance(node, ast.expr):
            for new in _of_expression(node):
                yield self._mutant(node, f"({ast.unparse(new)})")
        was_inside = self._is_inside
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._is_inside = True
        for child in _children(node):
            yield from self._visit(child)
        self._is_inside = was_inside

    def _of_statement(self, node: ast.stmt) -> Iterator[Mutant]:
        match node:
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield self._mutant(node, "pass")
            case ast.AugAssign(op=op) if type(op) in _COMPUTED:
                new = ast.AugAssign(node.target, _COMPUTED[type(op)](), node.value)
                yield self._mutant(node, ast.unparse(new))
            case ast.Return(value=ast.expr() as value):
                if not (isinstance(value, ast.Constant) and not value.value):
                    yield self._mutant(node, "return None")
            case ast.If(test=test) | ast.While(test=test):
                if not isinstance(test, ast.Compare | ast.Constant):
                    yield self._mutant(test, f"(not ({ast.unparse(test)}))")
            case ast.Raise() | ast.Delete():
                yield self._mutant(node, "pass")
            case ast.Continue():
                yield self._mutant(node, "break")
            case ast.Break():
                yield self._mutant(node, "continue")

    def _mutant(self, node: ast.expr | ast.stmt, new: str) -> Mutant:
        begin, end = self._span(node)
        changed = self._source[:begin] + new.encode() + self._source[end:]
        assert node.end_lineno is not None
        there = range(node.lineno, node.end_lineno + 1)
        return Mutant(
            self._path,
            node.lineno,
            frozenset(there) if self._is_inside else frozenset(),
            self._source.decode(),
            changed.decode(),
            self._source[begin:end].decode(),
            new,
        )

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Where *node* begins and ends, in bytes."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = self._starts[node.lineno - 1] + node.col_offset
        return begin, self._starts[node.end_lineno - 1] + node.end_col_offset


def _of_expression(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _COMPARED:
            yield ast.Compare(node.left, [_COMPARED[type(op)]()], node.comparators)
        case ast.BinOp(op=op) if type(op) in _COMPUTED and not _is_text(node):
            yield ast.BinOp(node.left, _COMPUTED[type(op)](), node.right)
        case ast.BoolOp(op=op):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield ast.BoolOp(other, node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(node.test, node.orelse, node.body)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1)


def _is_text(node: ast.BinOp) -> bool:
    """Whether *node* has a string on one side: then it can only be joined."""
    sides = (node.left, node.right)
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in sides
    )


def _is_constant(node: ast.AST) -> bool:
    """Whether *node* gives capital names to values."""
    names: list[ast.expr] = []
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            names = elements
        case ast.Assign(targets=targets):
            names = targets
        case ast.AnnAssign(target=target):
            names = [target]
    return bool(names) and all(
        isinstance(name, ast.Name) and name.id.isupper() for name in names
    )


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Assert():
            return True
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr():
            return True
        case ast.keyword(arg="strict"):
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="logger")))):
            return True
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """What of *node* is run, and not only written for readers."""
    skipped: tuple[str, ...] = ()
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            skipped = ("decorator_list", "returns", "type_params")
        case ast.AnnAssign() | ast.arg():
            skipped = ("annotation",)
        case ast.Raise():
            skipped = ("exc", "cause")
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield each
