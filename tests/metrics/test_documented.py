"""Names are by the conventions, and stats are exported under their own."""

from frontier.metrics.node import ABOUT, NODE, Reading
from frontier.status.figures import Figures


def test_every_stat_of_ours_is_exported():
    stats = {"frontier/queue/retried": 3, "frontier/recrawl/gone": 1, "other": 7}
    stats["frontier/job/name"] = "x"
    reading = Reading(dict.fromkeys(ABOUT, ""), Figures(), stats, {})
    (metric,) = [one for one in NODE if one.name == "frontier_stat"]

    assert metric.samples(reading) == {("queue/retried",): 3, ("recrawl/gone",): 1}
