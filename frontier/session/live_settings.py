"""Puts the settings that an operator has changed into force in one Scrapy process.

What always holds:

1.  What is in force is what was set last, or else what this node was started with:
    taking a change back needs no restart.
2.  A change is in force when the heartbeat that brought it ends, or, on a node that
    comes later, before its spider starts anything.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from scrapy.spidermiddlewares.depth import DepthMiddleware
from typing_extensions import override

from frontier.cluster.controls import Controls
from frontier.download.pace import Pace
from frontier.node.context import Part
from frontier.node.crawl_limits import COUNTED, Limits, Spending
from frontier.node.ends import LIMITS, TIME
from frontier.node.hosts import Concurrency
from frontier.scrapy_internals import change_limits
from frontier.session.request_stats import limits_of
from frontier.session.session import session_of
from frontier.settings.config import PREFIX
from frontier.settings.live import (
    DELAY,
    DEPTH,
    LIVE,
    PER_HOST,
    QUOTAS,
    SCOPE,
    value_of,
)
from frontier.urls.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy.crawler import Crawler

    from frontier.cluster.controls import By

    Wanted = Mapping[tuple[str, str], tuple[str, By]]

logger = logging.getLogger(__name__)
TRAPS = tuple(name for name in LIVE if name.startswith("FRONTIER_TRAP_"))


class LiveSettings(Part):
    """Changes the settings that the components of *crawler* go by."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._session = session = session_of(crawler)
        self._node = node = session.node
        self._pace = session.component(Pace)
        self._controls = Controls()
        self._limits = limits_of(crawler.settings, session.config)
        self._config = session.config
        self._concurrency = node.host_concurrency.whole
        self._now: dict[str, Any] = {}

    @override
    def steered(self) -> None:
        """Do what an operator wants, once the spider is open."""
        controls = self._node.controls.wanted
        if self._session.has_begun and controls is not self._controls:
            self._controls = controls
            self._change(controls.settings)
            self._session.count_for_limits()

    @override
    def report(self) -> dict[str, Any]:
        """Settings that can be changed and are not 0, as this node was started with."""
        settings, spider = self._crawler.settings, self._crawler.spider
        found: dict[str, Any] = {}
        for name in LIVE:
            if name.startswith(PREFIX):
                found[name] = getattr(self._config, name.removeprefix(PREFIX).lower())
            elif name != SCOPE:
                found[name] = settings.getfloat(name)
        scope = getattr(spider, "scope", None)
        if isinstance(scope, Scope):
            found[SCOPE] = scope.first_kind
        return {"own": {name: _text(value) for name, value in found.items() if value}}

    def _change(self, wanted: Wanted) -> None:
        """Put what is *wanted* into force, and take back every other change."""
        hosts: dict[str, dict[str, Any]] = {DELAY: {}, PER_HOST: {}}
        now: dict[str, Any] = {}
        for (name, host), (text, _) in wanted.items():
            value = value_of(name, text, host)
            if name in hosts:
                hosts[name][host.strip("[]")] = value  # as Scrapy names its slots
            else:
                now[name] = value
        self._change_pace(hosts[DELAY], hosts[PER_HOST])
        before, self._now = self._now, now
        changed = {n for n in {*before, *now} if before.get(n) != now.get(n)}
        if changed & {limit.setting for limit in LIMITS.values()}:
            self._change_limits()
        if changed & {*QUOTAS}:
            self._node.hosts.change_quotas(*map(self._value, QUOTAS))
        if changed & {*TRAPS}:
            self._change_config()
        if DEPTH in changed:
            self._change_depth(now.get(DEPTH, self._crawler.settings.getint(DEPTH)))
        if SCOPE in changed:
            self._change_scope(now.get(SCOPE))

    def _value(self, name: str) -> Any:
        """The value of *name*, a setting of ours, now."""
        own = getattr(self._config, name.removeprefix(PREFIX).lower())
        return self._now.get(name, own)

    def _change_pace(self, delays: dict[str, float], counts: dict[str, int]) -> None:
        self._pace.change(delays, counts)
        self._node.host_concurrency.whole = (
            self._concurrency
            if not (delays or counts)
            else Concurrency(
                self._concurrency.requests,
                max([self._pace.most(), *counts.values()]),
                self._pace.delay(),
            )
        )
        self._node.hosts.forget_turns()

    def _change_limits(self) -> None:
        own = self._limits
        found: dict[str, Any] = {
            name: self._now.get(LIMITS[name].setting, getattr(own, name))
            for name in COUNTED
        }
        seconds = self._now.get(LIMITS[TIME].setting, own.seconds)
        limits = Limits(**found, seconds=seconds)
        change_limits(self._crawler, limits.pages, limits.items, limits.errors)
        self._node.parts[Spending].change(limits)

    def _change_depth(self, most: int) -> None:
        middleware = self._crawler.get_spider_middleware(DepthMiddleware)
        if middleware is not None:
            middleware.maxdepth = most
        if self._session.output is not None:
            self._session.output.change_depth(most)

    def _change_config(self) -> None:
        values = {n.removeprefix(PREFIX).lower(): self._value(n) for n in TRAPS}
        config = replace(self._config, **values)
        self._session.config = config

    def _change_scope(self, kind: str | None) -> None:
        spider = self._crawler.spider
        scope = getattr(spider, "scope", None)
        seeds = getattr(spider, "start_urls", None)
        if isinstance(scope, Scope) and seeds:
            scope.become(kind or scope.first_kind, seeds)
        else:
            self._session.warn_once(
                "the scope is unchanged: the spider does not have one of ours "
                "(`scope`, a frontier.urls.scope.Scope, and `start_urls`)"
            )


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
