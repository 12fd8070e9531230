"""What the page looks like in a real browser, with content that is made up."""

import json

import pytest

from frontier.store.client import BlockingStore
from frontier.store.keys import CrawlKeys, RegistryKeys
from tests.browser import look_everywhere
from tests.dashboard.conftest import begin_crawl
from tests.dashboard.sample_data import fill, report

HOSTILE = "<img src=x onerror=hacked=1>\"'`{{7*7}}</script>"
CRAWL = HOSTILE.replace("/", "")
"""As the id of a crawl, which has no slash: that would be another page."""
LIVE = "#link[data-state='live']"


def hostile_report(_):
    return report(1) | {
        "host_errors": {HOSTILE: {"timeout": 3}},
        "host_seconds": {HOSTILE + "2": [4, 8.0]},
        "machine": HOSTILE,
        "busy_seconds": 9.0,
        "busy_url": f"http://a.example/{HOSTILE}",
        "statuses": {"200": 5, HOSTILE: 1},
    }


def test_hostile_names_and_titles_are_text(page, crawl_of, blocking, db, tab):
    keys = crawl_of("news")
    names = RegistryKeys(keys.namespace)
    fill(blocking(), keys, ["node-1"], partitions=16, **{"node-1": hostile_report(1)})
    db("HSET", keys.nodes, HOSTILE, "99999999999999 1 1 p")
    db("HSET", keys.reports, HOSTILE, json.dumps(report(2)))
    db("HSET", keys.partition(5).lease, "token", 9, "holder", HOSTILE)
    db("HSET", keys.meta, "spider", HOSTILE)
    db("HSET", keys.partition(3).counts, "dead", 2)
    db("RPUSH", keys.partition(3).dead, f"{HOSTILE}\n0:{HOSTILE}\n{HOSTILE}")
    db("ZADD", keys.partition(4).queues, 0, f"0:{HOSTILE}")
    db("RPUSH", keys.partition(4).ready(f"0:{HOSTILE}"), *[b"x"] * 900)
    db("HSET", keys.partition(4).counts, "ready", 10**6)
    db("SADD", names.crawls, CRAWL)
    other = CrawlKeys(keys.namespace, CRAWL)
    for name, value in db("HGETALL", keys.meta).items():
        db("HSET", other.meta, name, value)
    served, seen = page(), tab()

    for path in ("/", "/crawls/news-1"):
        seen.goto(served.url + path)
        seen.wait_for_selector(LIVE)
        assert HOSTILE in seen.locator("main").inner_text()
        assert seen.locator("main img, main script").count() == 0
    text = seen.locator("main").inner_text()
    assert text.count(HOSTILE) >= 6  # spider, machine, URL, hosts, reason
    assert "49" not in seen.locator("h1").inner_text()
    seen.goto(served.url)
    seen.get_by_text(CRAWL).first.click()
    seen.wait_for_selector(LIVE)
    assert seen.locator("h1").inner_text() == CRAWL
    assert seen.evaluate("typeof hacked") == "undefined"


@pytest.mark.long
def test_page_with_200_nodes_lists_all_and_fits_every_width(
    page, crawl_of, blocking, db, tab, shots
):
    keys = crawl_of("large")
    names = [f"crawler-{number:03}.example.org" for number in range(200)]
    fill(blocking(), keys, names)
    served, seen = page(), tab()
    seen.goto(f"{served.url}/crawls/large-1")
    seen.wait_for_selector(LIVE)

    assert seen.locator("#cells path").count() == 1024
    assert seen.locator("#nodes tbody tr").count() == 200
    # axe judges a page of the same parts, beside a crawl: of so many it takes a minute.
    assert look_everywhere(seen, "two-hundred-nodes", shots, judged=()) == {}


def test_node_choice_marks_its_cells_and_survives_updates_with_focus(
    page, crawl_of, blocking, db, tab
):
    keys = crawl_of("news")
    fill(blocking(), keys, ["node-1", "node-2"], partitions=64)
    served, seen = page(), tab()
    seen.goto(f"{served.url}/crawls/news-1")
    seen.wait_for_selector(LIVE)
    seen.locator("#ring-table summary").click()
    button = seen.locator("#legend button[data-name='node-2']")
    button.focus()
    seen.keyboard.press("Enter")
    held = seen.locator("#cells .chosen").count()

    db("HSET", keys.partition(0).lease, "holder", "node-1")
    db("HSET", keys.partition(1).lease, "holder", "node-1")
    db("HSET", keys.meta, "spider", "renamed")
    seen.wait_for_function(
        "() => document.querySelector('.by').textContent.includes('ren')"
    )
    seen.wait_for_selector("#p1:not(.chosen)")

    assert 0 < seen.locator("#cells .chosen").count() <= held
    assert button.get_attribute("aria-pressed") == "true"
    assert button.evaluate("it => it === document.activeElement")
    assert seen.locator("#ring-table").evaluate("it => it.open")


def test_without_scripts_the_page_refreshes_itself(page, crawl_of, db, tab):
    keys = crawl_of("news")
    served, seen = page(), tab(java_script_enabled=False)
    seen.goto(f"{served.url}/crawls/news-1")
    assert "news" in seen.locator(".by").inner_text()
    db("HSET", keys.meta, "spider", "renamed")

    seen.get_by_text("spider renamed").wait_for()


def test_the_form_for_the_token_leads_to_the_page(page, crawl_of, tab, shots):
    crawl_of("news")
    served, seen = page("a-token-that-is-long-enough"), tab()
    seen.goto(f"{served.url}/crawls/news-1")
    assert seen.url.endswith("/login")
    assert look_everywhere(seen, "login", shots) == {}
    seen.get_by_label("Token").fill("not this one")
    seen.keyboard.press("Enter")
    seen.get_by_text("That is not the token.").wait_for()
    seen.get_by_label("Token").fill("a-token-that-is-long-enough")
    seen.keyboard.press("Enter")

    seen.get_by_role("link", name="news-1").wait_for()


def test_a_store_that_is_gone_is_said_and_what_was_seen_stays(
    own_server, page, namespace, tab
):
    store = BlockingStore.from_settings({"REDIS_URL": own_server.url}, 2.0)
    begin_crawl(store, namespace, "news")
    served, seen = page(store=store), tab()
    seen.goto(f"{served.url}/crawls/news-1")
    seen.wait_for_selector(LIVE)
    own_server.kill()

    seen.get_by_text("This is what was seen last").wait_for()
    assert "news-1" in seen.locator("h1").inner_text()
    own_server.start()
    seen.wait_for_function("() => !document.body.textContent.includes('was seen last')")
