"""Makes ``frontier/status/status.schema.json`` from the values that it describes.

``python .ci/status_schema.py`` writes it; ``tests/status/test_document.py`` compares.
The descriptions are the docstrings of the fields.
"""

import ast
import dataclasses
import inspect
import itertools
import json
import textwrap
import types
import typing
from pathlib import Path

from frontier.cluster.controls import By, Entry
from frontier.queue.reserve import Scan
from frontier.seen.seen_set import SeenState
from frontier.status import (
    back_offs,
    figures,
    forecast,
    membership_log,
    overview,
    schedules,
    snapshot,
    views,
    watch,
)
from frontier.status.document import SCHEMA, VERSION

MODULES = (
    figures,
    views,
    watch,
    forecast,
    schedules,
    snapshot,
    overview,
    back_offs,
    membership_log,
)
NAMES = {
    name: value
    for module in MODULES
    for name, value in vars(module).items()
    if isinstance(value, type) or name == "Shares"
} | {"By": By, "Entry": Entry, "Scan": Scan, "SeenState": SeenState, "Any": typing.Any}
SIMPLE = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    types.NoneType: "null",
}
TOP = {
    "crawl": "What a crawl looks like.",
    "watched": "The same, from who keeps looking: the API of the status page, and "
    "frontier crawl status --json.",
    "crawls": "The crawls of a store: frontier crawl list --json.",
    "overview": "The crawls and collections of a store: the API of the status page.",
}
OF_VERSION = {"const": VERSION, "description": "The version of this form."}
COMMAND = "The command that has it fetched again; empty if it has no URL."
WARCS = {
    "type": "object",
    "description": "Its WARC files on this machine; only from the command.",
    "properties": {
        "directory": {"type": "string"},
        "files": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "bytes": {"type": "integer"},
                },
                "required": ["name", "bytes"],
            },
        },
    },
    "required": ["directory", "files"],
}


def plain(text):
    """*text* as one line without marks."""
    return " ".join(text.split()).replace("`", "")


def descriptions(cls):
    """The docstrings of the fields of *cls*."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    return {
        field.target.id: plain(text.value.value)
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


class Schema:
    """Collects the definitions of dataclasses."""

    def __init__(self):
        self.defs = {}

    def type_of(self, hint):
        """The schema of a value with the annotation *hint*."""
        origin, args = typing.get_origin(hint), typing.get_args(hint)
        if hint is typing.Any:
            return {}
        if hint in SIMPLE:
            return {"type": SIMPLE[hint]}
        if origin in (typing.Union, types.UnionType):
            return self._one_of([self.type_of(arg) for arg in args])
        if origin is dict:
            value = self.type_of(args[1])
            more = {"additionalProperties": value} if value else {}
            return {"type": "object", **more}
        if origin in (tuple, list):
            return {"type": "array", "items": self.type_of(args[0])}
        return {"$ref": f"#/$defs/{self.define(hint)}"}

    def _one_of(self, every):
        if all(set(one) == {"type"} for one in every):
            return {"type": [one["type"] for one in every]}
        return {"anyOf": every}

    def define(self, cls):
        """Add *cls*, a dataclass, and what it has; return its name."""
        if cls.__name__ not in self.defs:
            self.defs[cls.__name__] = made = {}
            made["description"] = plain(cls.__doc__.split("\n\n")[0])
            made["type"] = "object"
            told = descriptions(cls)
            made["properties"] = {
                field.name: self.type_of(eval(field.type, NAMES))  # noqa: S307
                | ({"description": told[field.name]} if field.name in told else {})
                for field in dataclasses.fields(cls)
            }
            made["required"] = list(made["properties"])
        return cls.__name__


def document(about, properties, optional=()):
    """The definition of a document with *properties*, some of them *optional*."""
    every = {"schema": OF_VERSION, **properties}
    return {
        "description": TOP[about],
        "type": "object",
        "properties": every,
        "required": [name for name in every if name not in optional],
    }


def made():
    """The whole schema."""
    schema = Schema()
    summary = schema.define(views.CrawlSummary)
    taken = [
        schema.defs.pop(schema.define(cls))["properties"]
        for cls in (views.CrawlSnapshot, watch.Watched, overview.Overview)
    ]
    crawl, watched, everything = taken
    del watched["crawl"]
    letter = schema.defs["DeadLetter"]
    letter["properties"]["command"] = {"type": "string", "description": COMMAND}
    letter["required"].append("command")
    listed = {"type": "array", "items": {"$ref": f"#/$defs/{summary}"}}
    more = {"warcs": WARCS, **watched}
    top = {
        "crawl": document("crawl", crawl | more, more),
        "watched": {
            "description": TOP["watched"],
            "allOf": [{"$ref": "#/$defs/crawl"}],
            "required": list(watched),
        },
        "crawls": document("crawls", {"crawls": listed}),
        "overview": document("overview", everything),
    }
    about = (
        f"Version {VERSION}: names and meanings stay, and fields may be added. "
        "docs/figures.md explains it."
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:frontier-crawl:status:{VERSION}",
        "title": "What is known of crawls",
        "description": about,
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in top],
        "$defs": top | dict(sorted(schema.defs.items())),
    }


def text():
    """The same, as the file has it."""
    return json.dumps(made(), indent=2) + "\n"


if __name__ == "__main__":
    path = Path(__file__).parents[1] / "frontier" / "status" / SCHEMA
    path.write_text(text(), encoding="utf-8")
