"""A crawl whose set outgrows its memory budget."""

from conftest import HELD, after, until

from frontier.status.snapshot import snapshot

SEEDS = "seeds={}"
NODES = ("node-1", "node-2")
TOLD = "has reached FRONTIER_SEEN_SET_MAX_BYTES"


def test_a_crawl_over_its_budget_loses_next_to_nothing_and_says_so(serve, cluster):
    server = serve(urls=300, hosts=5, calendar_months=12, delay=HELD, until=after(100))
    store = cluster.store  # the embedded one stays when the nodes are gone
    for node in NODES:
        cluster.start(
            node,
            "-a",
            SEEDS.format(",".join(server.seeds)),
            FRONTIER_SEEN_SET_MAX_BYTES="1",
            FRONTIER_BLOOM_ERROR_RATE="1e-9",
        )
    cluster.join()
    server.delay = 0.02
    until(lambda: any(TOLD in cluster.text_of(node) for node in NODES), "a look")
    server.go_on()

    assert cluster.wait() == [0, 0]
    log = server.requests()
    assert log.missing(server.expected) == set()
    assert not log.repeated()
    logs = [cluster.text_of(node) for node in NODES]
    told = [log.count(TOLD) for log in logs]
    assert 1 in told  # partition 0 may have changed hands
    assert max(told) == 1
    assert any("'frontier/seen/given_up'" in log for log in logs)
    seen = snapshot(store, "frontier", "site-1")
    assert (seen.totals.set_limit, seen.totals.set_limit_bytes) == ("1", 1)
    tiers = seen.tiers
    assert tiers.state.given_up > 0
    assert 0 <= tiers.state.lost < 1e-3
    assert tiers.outlook is None
