"""The pages of the status page, made from what was seen.

What always holds: templates escape all text, and two templates cannot share a state.
`frontier.status.sections` has what is said of a crawl; here is only how it looks.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from frontier.dashboard.ring_picture import COLOURS, NOBODY, cells, held_by, ranges
from frontier.status import text
from frontier.status.sections import BAD, ON_THE_MAP, Alert, alerts, sections

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.dashboard.looks import Result
    from frontier.errors import FrontierError
    from frontier.status.overview import Overview
    from frontier.status.watch import Watched

ORDER = ("nodes", "log", "hosts", "dead", "requests", "seen", "archive", "later")
"""The parts of the page of a crawl that are cards."""
MOST_NAMED = 48
"""Nodes in the legend of the ring."""


class Pages:
    """Makes pages from what was seen; may be used in several threads."""

    def __init__(self, where: str) -> None:
        self._env = Environment(
            loader=PackageLoader("frontier.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._env.filters |= {
            "number": text.number,
            "rate": text.rate,
            "size": text.size,
            "time": text.moment,
        }
        self._env.globals["where"] = where

    def crawl_parts(
        self, numbers: dict[str, int], seen: Watched, error: FrontierError | None
    ) -> Mapping[str, Any]:
        """The parts of the page of a crawl.

        *numbers* are its nodes' numbers, and so their colours; each node keeps its own.
        """
        crawl = seen.crawl
        holding = {*seen.holders}
        for node in crawl.nodes:
            if node.state in ON_THE_MAP or node.node_id in holding:
                numbers.setdefault(node.node_id, len(numbers))
        states = {node.node_id: node.state for node in crawl.nodes}
        ring = {"r": _ring(seen, numbers, states)}
        made = {one.name: one for one in sections(seen, _when)}
        is_open = crawl.state == "open"
        alone = f"This is what was seen last: {error}"
        headline = {
            "crawl": crawl,
            "state": "paused" if crawl.controls.paused and is_open else crawl.state,
            "lasted": text.duration(crawl.seconds),
            "counts": Counter(states.values()),
            "alerts": [Alert(BAD, alone)] * bool(error) + [*alerts(seen, _when)],
            "tiles": [one for one in made["progress"].rows if one.share is None],
            "limits": [one for one in made["progress"].rows if one.share is not None],
        }
        classes = {
            number: f"c{number % COLOURS} k{number} {states.get(name, 'lost')}"
            for name, number in numbers.items()
        } | {NOBODY: "free"}
        places = held_by(seen.holders, numbers, crawl.partitions)
        return {
            "headline": self._render("headline", **headline),
            "hub": self._render("hub", **ring),
            "legend": self._render("legend", **ring),
            **{
                name: self._render("section", s=made.get(name), numbers=numbers)
                for name in ORDER
            },
            "cells": [classes[place] for place in places],
        }

    def index_parts(
        self, view: Overview, error: FrontierError | None
    ) -> Mapping[str, Any]:
        """The parts of the list of crawls."""
        return {"crawls": self._render("crawls", seen=view, error=error)}

    def page(self, name: str, result: Result) -> str:
        """The whole page."""
        parts = {n: part.content for n, part in result.parts.items()}
        context = {"name": name, "parts": parts}
        if not name:
            return self._render("index", **context)
        places = cells(result.view.crawl.partitions)
        order = [part for part in ORDER if parts[part].strip()]
        return self._render("crawl", **context, order=order, cells=places)

    def failure(self, reason: str, code: int) -> str:
        """The page that says why there is no other."""
        return self._render("failure", reason=reason, code=code)

    def login(self, wrong: bool) -> str:
        """The page that asks for the token."""
        return self._render("login", wrong=wrong)

    def _render(self, template: str, **context: Any) -> str:
        return self._env.get_template(f"{template}.html").render(**context)


def _when(at_ms: float) -> str:
    return f"{text.moment(at_ms)} UTC"


def _ring(
    seen: Watched, numbers: Mapping[str, int], states: Mapping[str, str]
) -> dict[str, Any]:
    """Who holds which partitions."""
    held: dict[str, list[int]] = {}
    for partition, holder in enumerate(seen.holders):
        held.setdefault(holder if holder in numbers else "", []).append(partition)
    free = held.pop("", [])
    nodes = [
        {
            "id": name,
            "number": numbers[name],
            "state": states.get(name, "lost"),
            "held": len(held[name]),
            "ranges": ranges(held[name]),
        }
        for name in numbers
        if name in held
    ]
    return {
        "live": sum(state == "live" for state in states.values()),
        "partitions": seen.crawl.partitions,
        "nodes": nodes,
        "shown": MOST_NAMED,
        "free": len(free),
        "free_ranges": ranges(free),
    }
