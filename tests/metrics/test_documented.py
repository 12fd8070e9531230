"""Every stat is exported, under names by the conventions."""

import re
from pathlib import Path

from frontier.metrics.crawl import CRAWL
from frontier.metrics.node import ABOUT, NODE, Reading
from frontier.status.figures import Figures
from frontier.urls.traps import STATS
from tests.harness.cases import each

SOURCES = sorted((Path(__file__).parents[2] / "frontier").rglob("*.py"))

IN_THE_REPORT = {
    "frontier/archive/canonical_url",
    "frontier/archive/canonical_url_bytes",
    "frontier/archive/cdx_asked",
    "frontier/archive/cdx_failed",
    "frontier/archive/cdx_found",
    "frontier/archive/cdx_seconds",
    "frontier/archive/digest",
    "frontier/archive/digest_bytes",
    "frontier/archive/exact_url",
    "frontier/archive/exact_url_bytes",
    "frontier/archive/handled",
    "frontier/archive/lookup_seconds",
    "frontier/archive/new",
    "frontier/archive/originals",
    "frontier/archive/revisit_bytes",
    "frontier/archive/revisits",
    "frontier/archive/written_bytes",
    "frontier/backoff/given_up",
    "frontier/queue/dead",
    "frontier/queue/excluded",
    "frontier/queue/local",
    "frontier/seen/bloom",
    "frontier/seen/imported",
    "frontier/seen/recent",
    "frontier/seen/set",
    *STATS.values(),
}
"""Stats whose figures a metric has from the node's report; `handled` is a sum of
others."""
OF_PIPELINES = {
    "frontier/items/doubles",
    "frontier/items/without_id",
    "frontier/items/without_origin",
}
"""Stats of a project that has our pipelines, and no metric yet."""


class Asked:
    """Stats that note which of them they are asked for."""

    def __init__(self):
        self.names = set()

    def get(self, name):
        self.names.add(name)


def test_every_stat_is_exported():
    code = "\n".join(path.read_text("utf-8") for path in SOURCES)
    used = set(re.findall(r'"(frontier/[a-z]+/[a-z_]+)"', code))
    asked = Asked()
    for metric in NODE:
        metric.read(Reading(dict.fromkeys(ABOUT, ""), Figures(), asked, {}))

    assert len(used) > 80
    assert used - asked.names == IN_THE_REPORT | OF_PIPELINES


@each("metric", [*NODE, *CRAWL])
def test_names_are_by_the_conventions(metric):
    assert re.fullmatch(r"frontier(_[a-z0-9]+)+", metric.name)
    assert metric.about.endswith(".")
    assert "url" not in metric.labels
    if re.search(r"seconds|bytes", metric.name):
        assert metric.unit
