"""Whether the rules of a robots.txt can be read within the limits of a worker.

Protego copies each rule of a group to each agent of the group: 16 KiB may take it more
than a second, and 500 KiB minutes and all memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from protego import Protego

LONG_URL = "https://example.org/" + "a" * 2_000


def robots_job(content: bytes, arguments: Mapping[str, Any]) -> Iterator[Any]:
    """Try the rules in a worker as the node will, for *agent*: a worker has limits.

    The node parses them again: rules are used too often to ask another process.
    """
    rules = Protego.parse(content.decode("utf-8-sig", "ignore"))
    yield bool(rules.can_fetch(LONG_URL, arguments["agent"]))
