"""Names are by the conventions, and stats are exported under their own."""

import re

from frontier.metrics.crawl import CRAWL
from frontier.metrics.node import ABOUT, NODE, Reading
from frontier.status.figures import Figures
from tests.harness.cases import each


def test_every_stat_of_ours_is_exported():
    stats = {"frontier/queue/retried": 3, "frontier/recrawl/gone": 1, "other": 7}
    stats["frontier/job/name"] = "x"
    reading = Reading(dict.fromkeys(ABOUT, ""), Figures(), stats, {})
    (metric,) = [one for one in NODE if one.name == "frontier_stat"]

    assert metric.samples(reading) == {("queue/retried",): 3, ("recrawl/gone",): 1}


@each("metric", [*NODE, *CRAWL])
def test_names_are_by_the_conventions(metric):
    assert re.fullmatch(r"frontier(_[a-z0-9]+)+", metric.name)
    assert metric.about.endswith(".")
    assert "{" not in metric.about
    assert "url" not in metric.labels
    if re.search(r"seconds|bytes", metric.name):
        assert metric.unit
