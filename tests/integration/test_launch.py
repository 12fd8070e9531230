"""One job on several machines, of which one is slow to start; and one run twice."""

from conftest import FAST

from frontier.status.snapshot import list_crawls


def crawls(cluster):
    return sorted(crawl.crawl_id for crawl in list_crawls(cluster.store, "frontier"))


def test_a_node_that_comes_when_the_crawl_of_its_run_has_ended_fetches_nothing(
    serve, cluster, monkeypatch
):
    server = serve(urls=50, hosts=2, calendar_months=1)
    seeds = f"seeds={','.join(server.seeds)}"
    monkeypatch.setenv("FRONTIER_RUN_ID", "deploy 1")
    cluster.start("node-1", "-a", seeds)
    assert cluster.wait("node-1") == [0]
    fetched = len(server.requests().entries)

    cluster.start("node-2", "-a", seeds, LOG_LEVEL="WARNING")
    assert cluster.wait("node-2") == [0]
    assert len(server.requests().entries) == fetched
    assert crawls(cluster) == ["site-1"]
    (line,) = cluster.text_of("node-2").strip().splitlines()
    assert "the crawl site-1 of the run 'deploy 1' has ended (finished)" in line

    cluster.start("node-3", "-a", seeds)
    monkeypatch.delenv("FRONTIER_RUN_ID")
    assert cluster.wait("node-3") == [0]
    assert "Spider closed (frontier_run_over)" in cluster.text_of("node-3")
    cluster.start("node-4", "-a", seeds)  # a person, who starts again at once
    assert cluster.wait("node-4") == [0]
    assert len(server.requests().entries) == 2 * fetched
    assert crawls(cluster) == ["site-1", "site-2"]


def test_two_that_run_one_job_make_one_crawl_and_two_runs_make_two(
    serve, cluster, monkeypatch
):
    server = serve(urls=50, hosts=2, calendar_months=1)
    settings = [f"-s{name}={value}" for name, value in FAST.items()]
    words = ["crawl", "run", "--seeds", server.seeds[0], *settings]
    words += ["--warc-dir", str(cluster.warc_dir), "--nodes"]
    monkeypatch.setenv("FRONTIER_RUN_ID", "job 7")
    for nodes in ("2", "1"):  # on two machines
        done = cluster.ask(*words, nodes)
        assert done.returncode == 0, done.stderr
        assert crawls(cluster) == ["site-1"]
    assert "of the run 'job 7' has ended" in done.stderr

    monkeypatch.delenv("FRONTIER_RUN_ID")
    assert cluster.ask(*words, "1").returncode == 0
    assert crawls(cluster) == ["site-1", "site-2"]
