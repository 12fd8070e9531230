"""What a crawl knows of its sites goes with its frontier."""

from frontier.feeds.model import Feed, Site
from frontier.feeds.round_state import InProgress as Url
from frontier.feeds.round_state import add_call, begin_call, update_call
from frontier.node.remove_frontier import remove_frontier
from frontier.settings.config import Config
from frontier.store.client import Call


async def test_sites_go_with_the_frontier(store, crawl):
    site = Site("news", (Feed("https://news.example/rss"),), 60, 60)
    begin = begin_call(crawl, "news", "a", look_ms=1000, max_ms=10**6)
    url = Url(b"x" * 9, 7, "https://news.example/rss")
    calls = [update_call(crawl, site), begin, add_call(crawl, "news", 1, [url])]
    await store.run([*calls, Call.command("HSET", crawl.meta(), "state", "finished")])
    names = [crawl.sites(), crawl.site("news"), crawl.round("news")]
    there = [Call.command("EXISTS", name) for name in names]
    assert await store.run(there) == [1, 1, 1]

    await remove_frontier(store.run, crawl, Config(partitions=4))

    assert await store.run(there) == [0, 0, 0]
