import re

import pytest

from tests.embedded_store import server_in

pytestmark = pytest.mark.one_server("the demo has the embedded store")


def figures(done):
    found = re.search(r"([\d,]+) originals, ([\d,]+) revisits", done.stdout)
    return [int(number.replace(",", "")) for number in found.groups()]


def test_a_second_demo_reports_mostly_revisits(frontier, shown, tmp_path):
    # Slow enough for the second node to arrive before the first has all of it: the
    # site has a chain of 19 pages.
    arguments = ["--urls", "150", "--hosts", "5", "--delay", "0.25"]
    first = frontier("demo", *arguments)
    second = frontier("demo", *arguments)

    for done in (first, second):
        assert done.returncode == 0, done.stdout + done.stderr
        assert "150 expected, 150 fetched, 0 fetched twice, 0 missing" in done.stdout
        assert "node-1 and node-2" in done.stdout
        assert "Every URL of the site was fetched exactly once." in done.stdout
        assert str(tmp_path / "warcs") in done.stdout
        assert "\x1b" not in done.stdout
        lines = [line for line in done.stdout.splitlines() if "/" not in line]
        assert max(map(len, lines)) <= 80
    assert min(figures(first)) > 0
    originals, revisits = figures(second)
    assert revisits > 9 * originals

    seen = shown("crawl", "status")
    assert seen["crawl_id"] == "demo-2"
    assert seen["state"] == "finished"
    assert seen["totals"]["archive"]["revisits"] == revisits
    assert seen["queue"]["ready"] == seen["queue"]["reserved"] == 0
    assert seen["queue"]["pushed"] == seen["queue"]["acked"] == seen["totals"]["new"]
    assert [node["node_id"] for node in seen["nodes"]] == ["node-1", "node-2"]
    assert all(node["figures"]["pages"] for node in seen["nodes"])
    assert len(seen["warcs"]["files"]) == 2

    assert not server_in(tmp_path / ".frontier").running


def test_a_site_that_cannot_be_is_refused(frontier):
    done = frontier("demo", "--urls", "3")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("frontier: 3 URLs are too few")
    assert done.stderr.count("\n") == 1
