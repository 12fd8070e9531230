"""What reads content of others takes time that grows with it, and no faster.

What is hostile to lxml takes the reactor's thread a bounded time; more of it is for a
worker, which is killed. Each expression that a module of the package has is tried with
texts of one short piece again and again, by the methods that the module calls.
"""

import contextlib
import importlib
import re
from functools import partial
from pathlib import Path

import pytest

import frontier
from frontier.download.pages import INLINE
from frontier.urls.canon import heritrix, openwayback, surt
from frontier.urls.links import PageCut, read_links
from tests.harness.growth import grows_with, repeated, seconds

ROOT = Path(frontier.__file__).parent


def page(text):
    return list(read_links(text, "http://a.example/x/y", is_html=True))


def numbered(template, length):
    """A maker of *template*, with a number in it, so often as there is room."""

    def make(size):
        return "".join(template % n for n in range(size // length))

    return make


OF_LXML = {
    "attributes": lambda n: "<a " + numbered("a%d=1 ", 8)(n) + ">",
    "one-attribute-again": repeated("a ", "<a ", ">"),
    "open-elements": repeated("<div>"),
    "open-inline": repeated("<b>"),
    "open-paragraphs": repeated("<p>"),
    "open-lists": repeated("<ul><li>"),
    "open-tables": repeated("<table>"),
    "open-then-closed": lambda n: "<div>" * (n // 10) + "</b>" * (n // 8),
    "open-among-others": lambda n: "<div><p>" * (n // 16) + "</b>" * (n // 8),
    "ends-without-beginnings": repeated("</b>"),
    "comments": repeated("<!--"),
    "less-than": repeated("<"),
    "ampersands": repeated("&"),
    "html-again": numbered("<html a%d=1>", 16),
    "body-again": numbered("<body a%d=1>", 16),
    "script": repeated("</", "<script>"),
    "quotes": repeated('<a href="'),
    "one-value": repeated("x", '<a href="'),
    "nul": repeated("<a>\0"),
    "titles": repeated("<title>"),
}
"""Hostile to libxml2, which reads some of them in quadratic time."""
DEEP = {"open-elements", "open-inline", "open-lists", "open-tables"}
DEEP |= {"open-then-closed", "open-among-others"}


def test_hostile_page_takes_the_parser_a_bounded_time():
    usual = seconds(page, repeated("<a href=x>y</a> ")(INLINE))
    for name, make in OF_LXML.items():
        with pytest.raises(PageCut) if name in DEEP else contextlib.nullcontext():
            assert seconds(page, make(INLINE)) < 100 * usual, name  # 12 at most


PIECES = [
    *" a0Z,.;:/-=&%#?()[]\"'<>@_~*\t\n\r\\",
    "%2",
    "a.",
    "0.",
    "a=",
    "é",
    "..",
    "\r\n",
    "a ",
    "www",
    "--",
    "a,",
    "((",
    "x=1&",
]
SIZE = 8_192
SLOW = 0.004
"""Seconds that no linear expression takes for that many characters."""
METHODS = "match|fullmatch|search|finditer|findall|split|sub"
CALL = re.compile(rf"\b([A-Z_][A-Z0-9_]*)\.({METHODS})\b")


def expressions():
    """Each expression of a module by its name, and how it is called there."""
    for path in sorted(ROOT.rglob("*.py")):
        called = {}
        for name, method in CALL.findall(path.read_text("utf-8")):
            called.setdefault(name, set()).add(method)
        dotted = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        for name, methods in sorted(called.items()):
            found = getattr(importlib.import_module(dotted), name, None)
            if isinstance(found, re.Pattern):
                yield pytest.param(found, methods, id=f"{dotted}.{name}")
    for module in (heritrix, openwayback, surt):
        for name, parts in vars(module).items():
            if isinstance(parts, tuple) and isinstance(parts[0], tuple):
                for number, (_, found) in enumerate(parts):
                    yield pytest.param(found, {"fullmatch"}, id=f"{name}.{number}")


EXPRESSIONS = list(expressions())


def tried(expression, method):
    """What tries *expression* on a text as *method* does."""
    call = getattr(expression, method)
    if method == "sub":
        return lambda text: call("" if isinstance(text, str) else b"", text)
    if method == "finditer":
        return lambda text: [*call(text)]
    return call


@pytest.mark.parametrize(("expression", "methods"), EXPRESSIONS)
def test_an_expression_takes_time_in_proportion(expression, methods):
    def make(piece, size):
        text = piece * (size // len(piece))
        return text.encode() if isinstance(expression.pattern, bytes) else text

    for method in methods:
        work = tried(expression, method)
        for piece in PIECES:
            if seconds(work, make(piece, SIZE)) > SLOW:
                assert grows_with(work, partial(make, piece), SIZE), (method, piece)
