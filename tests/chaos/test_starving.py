from frontier.testing.oracle import Entry, RequestLog
from tests.chaos.starving import (
    Starving,
    refetched_for_lost_leases,
)


def test_starvation_for_half_of_a_window_is_reported_once():
    now, wait = 0.0, {1: 0.0, 2: 5.0}
    starving = Starving(2.0, clock=lambda: now, waited=wait.get)
    found = []
    for now in range(1, 9):
        wait[1] += 0.9 if now in (3, 4) else 0.1
        found.append(starving.look([1, 2, 3]))  # there is no 3

    assert found == [False, False, False, True, False, False, False, False]


def test_as_many_fetches_are_excused_as_nodes_say_that_they_have_lost():
    def fetched(url, node, start):
        return Entry(start, start + 0.1, "x", url, "GET", 200, 9, node, None)

    log = RequestLog(
        [fetched(url, "a", start) for start, url in enumerate("pqrs")]
        + [fetched(url, "b", start) for start, url in enumerate("pqrs", 10)]
    )
    line = "the leases on 2 partitions are lost (1, 2); {} requests that were under way"
    texts = {
        "a": f"{line.format(2)} will be fetched again by their new holders",
        "b": f"{line.format(9)} will be fetched again by their new holders",
    }

    assert refetched_for_lost_leases(texts, log, {"p": 1}) == {"q": 1, "r": 1}
    assert not refetched_for_lost_leases({"a": "", "b": texts["b"]}, log, {})
