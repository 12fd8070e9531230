"""What a page says of a crawl, as HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from frontier.dashboard import facts
from frontier.dashboard.ring_picture import cells
from frontier.status import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frontier.dashboard.history import CrawlHistory
    from frontier.dashboard.looks import Result
    from frontier.errors import FrontierError
    from frontier.status.snapshot import Overview
    from frontier.status.watch import Watched

ORDER = ("nodes", "log", "hosts", "dead", "requests", "seen", "archive", "later")
"""The parts of the page of a crawl that are cards, each a template."""


class Pages:
    """Makes pages of what was seen; may be used in several threads."""

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
        self, known: CrawlHistory, seen: Watched, error: FrontierError | None
    ) -> Mapping[str, Any]:
        """The parts of the page of a crawl."""
        if error is None:
            known.note(seen)
        context = {
            "h": facts.headline(seen, known, error),
            "r": facts.ring(seen, known.numbers),
            "n": facts.nodes(seen, known.numbers),
            "o": facts.hosts(seen),
            "requests": facts.requests(seen),
            "seen": facts.seen_test(seen),
            "a": facts.archive(seen),
            "d": facts.dead(seen),
            "entries": facts.log(known, seen),
            "unread": seen.membership_unread,
            "l": facts.later(seen),
        }
        names = ("headline", "hub", "legend", *ORDER)
        parts: dict[str, Any] = {n: self._render(n, **context) for n in names}
        return {**parts, "cells": facts.cell_classes(seen, known.numbers)}

    def index_parts(
        self, view: Overview, error: FrontierError | None
    ) -> Mapping[str, Any]:
        """The parts of the list of crawls."""
        return {"crawls": self._render("crawls", seen=view, error=error)}

    def page(self, name: str, result: Result, version: str) -> str:
        """The whole page."""
        parts = {n: part.content for n, part in result.parts.items()}
        context = {"name": name, "parts": parts, "version": version}
        if not name:
            return self._render("index", **context)
        places = cells(result.view.crawl.partitions)
        return self._render("crawl", **context, order=ORDER, cells=places)

    def failure(self, reason: str, code: int) -> str:
        """The page that says why there is no other."""
        return self._render("failure", reason=reason, code=code)

    def login(self, wrong: bool) -> str:
        """The page that asks for the token."""
        return self._render("login", wrong=wrong)

    def _render(self, template: str, **context: Any) -> str:
        return self._env.get_template(f"{template}.html").render(**context)
