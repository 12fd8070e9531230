"""A calendar that goes on and on is left."""

import json


def test_a_long_calendar_is_left_after_so_many_months(serve, cluster):
    server = serve(urls=220, hosts=1, calendar_months=100)
    cluster.start(
        "node-1", "-a", f"seeds={server.seeds[0]}", FRONTIER_TRAP_QUERY_URLS=12
    )

    assert cluster.wait() == [0], cluster.text_of("node-1")
    urls = {entry.url for entry in server.requests().entries}
    months = {url for url in urls if "/calendar?month=" in url}
    assert len(months) == 12
    assert "'frontier/trap/query': " in cluster.text_of("node-1")
    assert cluster.store  # starts it again, for the command
    status = cluster.ask("crawl", "status", "--json")
    assert json.loads(status.stdout)["totals"]["trapped"] > 0
