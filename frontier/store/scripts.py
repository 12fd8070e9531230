"""Every Lua script, by name.

A script is a file in ``lua/``; its header declares its keys, arguments and result, and
a test compares it with the body. Code that several scripts need, or parts of one that
would be too long to read, are in *fragments*, files in ``lua/fragments/``: the line
``-- include: <fragment> ...`` of a header puts their code, in that order, before the
script's own. The server gets one script.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib.resources import files

from frontier.model import frozen


@frozen
class Script:
    """One Lua script."""

    name: str
    source: str
    sha: str
    """SHA-1 of the source in hex, as EVALSHA wants it."""


_LUA = files("frontier.store") / "lua"
_HEADER = re.compile(r"\A(?:--.*\n)+")
_INCLUDE = re.compile(r"^-- include: (.+)$", re.MULTILINE)


def included(source: str) -> list[str]:
    """The fragments that the script or fragment *source* includes, in their order."""
    return " ".join(_INCLUDE.findall(source)).split()


@cache
def fragment(name: str) -> str:
    """The fragment *name*, with its header.

    Raises:
        FileNotFoundError: There is no such fragment.
    """
    return (_LUA / "fragments" / f"{name}.lua").read_text("utf-8")


def _read(name: str) -> Script:
    text = (_LUA / f"{name}.lua").read_text("utf-8")
    header = _HEADER.match(text)
    end = header.end() if header else 0
    code = [_HEADER.sub("", fragment(one), count=1) for one in included(text)]
    source = text[:end] + "".join(code) + text[end:]
    digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
    return Script(name, source, digest)


SCRIPTS = {
    file.name.removesuffix(".lua"): _read(file.name.removesuffix(".lua"))
    for file in _LUA.iterdir()
    if file.name.endswith(".lua")
}
"""All scripts, by their names."""
