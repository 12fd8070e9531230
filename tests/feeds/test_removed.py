"""What a crawl knows of its sites goes with its frontier."""

from frontier.feeds.model import Feed, Site
from frontier.feeds.round_state import claim_call, take_call, update_call
from frontier.node.remove_frontier import remove_frontier
from frontier.settings.config import Config
from frontier.store.client import Call


async def test_sites_go_with_the_frontier(store, crawl):
    rss = "https://news.example/rss"
    site = Site("news", (Feed(rss),), 60, 60)
    take = take_call(crawl, "news", look_ms=1000)
    calls = [update_call(crawl, site), take, claim_call(crawl, "news", 1, rss, [b"x"])]
    await store.run([*calls, Call.command("HSET", crawl.meta(), "state", "finished")])
    names = [crawl.sites(), crawl.site("news"), crawl.claimed("news")]
    there = [Call.command("EXISTS", name) for name in names]
    assert await store.run(there) == [1, 1, 1]

    await remove_frontier(store.run, crawl, Config(partitions=4))

    assert await store.run(there) == [0, 0, 0]
