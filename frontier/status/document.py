"""What is known of crawls, as JSON: one versioned form for all readers.

`frontier crawl status --json`, `frontier crawl list --json` and the API of the status
page give these. ``status.schema.json`` beside this module describes them (JSON Schema,
draft 2020-12); ``docs/figures.md`` says what it promises. What always holds:

1.  Each document has ``schema``, the version. Within a version, names and meanings
    stay; fields are only added.
2.  A document has only JSON's types; numbers are finite, and texts are printable.
"""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import fields, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontier.status.overview import Overview
    from frontier.status.views import CrawlSnapshot, CrawlSummary
    from frontier.status.watch import Watched

VERSION = 1
"""The version of the documents."""
SCHEMA = "status.schema.json"
NO_HOSTS: dict[str, Any] = {"host_errors": {}, "host_seconds": {}}
"""Figures of a node that are left empty in the document of a watch."""


def schema() -> dict[str, Any]:
    """The JSON Schema of the documents."""
    text = (files("frontier.status") / SCHEMA).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def crawl_document(seen: CrawlSnapshot) -> dict[str, Any]:
    """What a crawl looks like."""
    made = {"schema": VERSION, **as_json(seen)}
    for letter in made["dead_letters"]:
        letter["command"] = requeue_command(seen.crawl_id, letter["url"])
    return made


def watch_document(watched: Watched) -> dict[str, Any]:
    """The same, and what only a watch can tell.

    The hosts and media types of single nodes are left out: they would be nine tenths
    of it, and the totals have the sums.
    """
    seen = watched.crawl
    nodes = tuple(
        replace(node, figures=replace(node.figures, **NO_HOSTS))
        if node.figures is not None
        else node
        for node in seen.nodes
    )
    names = (one.name for one in fields(watched) if one.name != "crawl")
    more = {name: as_json(getattr(watched, name)) for name in names}
    return {**crawl_document(replace(seen, nodes=nodes)), **more}


def crawls_document(crawls: Sequence[CrawlSummary]) -> dict[str, Any]:
    """The crawls of a store."""
    return {"schema": VERSION, "crawls": as_json(crawls)}


def overview_document(overview: Overview) -> dict[str, Any]:
    """The crawls and collections of a store."""
    return {"schema": VERSION, **as_json(overview)}


def requeue_command(crawl_id: str, url: str) -> str:
    """The command that has a dead letter fetched again; empty if it has no URL."""
    if not url:
        return ""
    return shlex.join(["frontier", "crawl", "requeue", "--crawl", crawl_id, url])


def as_json(value: Any) -> Any:
    """*value*, of dataclasses, mappings and sequences, in the types of JSON."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else 0.0
    if isinstance(value, dict):
        return {str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(each) for each in value]
    names = getattr(type(value), "__dataclass_fields__", None)
    if names is not None:
        return {name: as_json(getattr(value, name)) for name in names}
    raise TypeError(f"{type(value).__name__} is not a type of JSON")
