"""The status page beside a crawl of real nodes, in a real browser."""

import contextlib
import re
import signal

import pytest
from conftest import HELD

from tests.browser import look_everywhere

pytestmark = [
    pytest.mark.long,
    pytest.mark.one_server("a page looks the same beside any store"),
]
NODES = ("node-1", "node-2", "node-3")
STATE = "#nodes tr[data-key='{}'] .state"
CELLS = """
(name) => {
  const button = document.querySelector(`#legend button[data-name="${name}"]`);
  const held = document.querySelectorAll(`#cells .k${button.dataset.node}`);
  return [...held].map((cell) => cell.id);
}
"""
TAKEN_OVER = """
([ids, name]) => {
  const number = {};
  for (const b of document.querySelectorAll("#legend button")) {
    number[b.dataset.node] = b.dataset.name;
  }
  return ids.every((id) => {
    const found = /k(\\d+)/.exec(document.getElementById(id).getAttribute("class"));
    return found && number[found[1]] && number[found[1]] !== name;
  });
}
"""


@contextlib.contextmanager
def page_of(cluster):
    """Run ``frontier dashboard``; where its page is."""
    process = cluster.command("dashboard", "--port", "0")
    try:
        line = process.stderr.readline()
        yield re.search(r"http://\S+", line)[0]
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=HELD)
        assert process.returncode == 0, said


def test_a_node_that_is_killed_is_lost_in_view_and_its_partitions_move(
    serve, cluster, tab, shots
):
    server = serve(urls=300, hosts=6, calendar_months=12, delay=HELD, nodes=NODES)
    for node in NODES:
        arguments = f"seeds={','.join(server.seeds)}"
        cluster.start(node, "-a", arguments, FRONTIER_LEASE_TTL="8")
    cluster.join()
    cluster.share("site-1")
    with page_of(cluster) as url:
        page = tab()
        page.goto(f"{url}crawls/site-1")
        page.wait_for_selector("#link[data-state='live']")
        for node in NODES:
            page.wait_for_selector(STATE.format(node) + ".live")
        cells = page.evaluate(CELLS, "node-1")
        faults = {"before": look_everywhere(page, "three-nodes", shots, judged=())}
        page.set_viewport_size({"width": 1920, "height": 1080})

        cluster.kill("node-1")
        page.wait_for_selector(STATE.format("node-1") + ".lost")
        page.wait_for_function(TAKEN_OVER, arg=[cells, "node-1"])

        page.locator("#log").get_by_text("node-1 is lost").first.wait_for()
        alert = page.locator(".alerts").inner_text()
        faults["after"] = look_everywhere(page, "one-is-lost", shots)
        page.goto("about:blank")  # what serves it ends
    assert len(cells) > 50
    assert faults == {"before": {}, "after": {}}
    assert "node-1 is lost" in alert
