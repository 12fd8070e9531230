"""Which items of a feed are new: the faults of CrawlRSS, and any feed."""

import pytest
from hypothesis import given, strategies as st

from frontier.feeds.items import FORGETTING, LEAST, SIZE, new_items
from frontier.feeds.parse import Item

NOW, HOUR, DAY = 1_795_435_200, 3600, 86_400


def item(number, *dates, **given):
    return Item(
        guid=f"guid-{number}", link=f"http://a.example/{number}", dates=dates, **given
    )


def rounds(*feeds):
    """What each of *feeds*, one after the other, has that is new."""
    state, found = None, []
    for feed in feeds:
        outcome = new_items(feed, state)
        state = outcome.state
        found.append([one.link for one in outcome.new])
    return found


def links(*numbers):
    return [f"http://a.example/{number}" for number in numbers]


def test_dates_that_the_clock_of_the_feed_makes_do_not_count():
    feeds = [[item(n, NOW + 60 * minute) for n in range(3)] for minute in range(3)]
    feeds[2].insert(0, item(9, NOW + 120))

    assert rounds(*feeds) == [links(0, 1, 2), [], links(9)]
    state = new_items(feeds[0], None).state
    assert new_items(feeds[1], state).redated == 3


RENAMED = {
    "guids": lambda one, again: one._replace(guid=f"random-{again}-{one.guid}"),
    "links": lambda one, again: one._replace(link=f"{one.link}?session={again}"),
}


@pytest.mark.parametrize("what", RENAMED)
def test_guids_or_links_changed_by_each_request_make_no_item_new(what):
    def asked(again, *some):
        return [RENAMED[what](one, again) for one in some]

    known = [item(n, NOW, title=f"Item {n}") for n in range(4)]
    updated = known[1]._replace(dates=[NOW + HOUR])
    first, *later = rounds(
        asked(0, *known),
        asked(1, *known),
        asked(2, item(9, NOW, title="News"), *known),
        [],
        asked(3, known[0], updated, *known[2:]),
    )

    assert len(first) == 4
    assert [[link.partition("?")[0] for link in some] for some in later] == [
        [],
        links(9),
        [],
        links(1),
    ]
    state = new_items(asked(0, *known), None).state
    assert new_items(asked(1, *known), state).renamed == what


def test_places_that_get_other_items_lose_none():
    places = [
        [item(n, NOW, title=f"{day} {n}")._replace(guid=f"top-{n % 5}") for n in some]
        for day, some in (("Monday", range(5)), ("Tuesday", range(5, 10)))
    ]
    front_page = [
        [Item(f"{day}-{n}", "http://a.example/", title=f"{day} {n}") for n in range(5)]
        for day in ("Monday", "Tuesday")
    ]

    assert rounds(*places)[1] == links(*range(5, 10))
    assert len(rounds(*front_page)[1]) == 5


def test_links_are_the_same_if_the_crawl_says_so():
    def known_by(link):
        return link.partition("#")[0].encode()

    first, second = (
        [item(n, NOW)._replace(link=f"http://a.example/{n}#{part}") for n in range(5)]
        for part in ("a", "b")
    )
    state = new_items(first, None, link_of=known_by).state

    outcome = new_items(second, state, link_of=known_by)
    assert (outcome.new, outcome.renamed) == ([], "")


def test_two_entries_of_one_page_are_one_item_with_the_embeds_of_both():
    (found,) = new_items([item(1, NOW, embeds=(url,)) for url in "xy"], None).new

    assert found.embeds == ["x", "y"]


def test_items_without_guid_and_link_differ_by_their_content():
    podcast = [Item(embeds=("http://a.example/1.mp3",), title="Episode")]
    podcast += [Item(embeds=("http://a.example/2.mp3",), title="Episode")]
    notes = [Item(title="one"), Item(title="two")]

    outcome = new_items(podcast + notes, None)

    assert outcome.new == podcast + notes
    assert new_items(notes + podcast, outcome.state).new == []


def test_a_feed_that_is_once_empty_or_short_is_not_forgotten():
    feed = [item(n, NOW) for n in range(1000)]

    assert rounds(feed, [], feed)[2] == []
    assert len(rounds(feed, feed[:10], feed)[2]) == len(feed) // FORGETTING


def test_state_keeps_items_in_the_feed_and_drops_the_oldest_gone():
    state = None
    for begin in range(0, 3_000, 10):
        feed = [item(n, NOW) for n in range(begin, begin + 50)]
        outcome = new_items(feed, state)
        state = outcome.state
    assert len(state) == (LEAST + 2 * 50) * SIZE
    assert new_items(feed, state).new == []
    assert new_items([item(2_950, NOW)], state).new == []
    assert new_items([item(0, NOW)], state).new != []


def with_a_title_of_its_own(item):
    both = item.guid and item.link
    return item._replace(title=f"{item.guid} {item.link}") if both else item


FEEDS = st.lists(
    st.lists(
        st.builds(
            Item,
            guid=st.sampled_from(["", *"abcdefgh"]),
            link=st.sampled_from(["", *(f"http://a.example/{n}" for n in "xyz")]),
            dates=st.lists(st.integers(0, 2 * NOW), max_size=2, unique=True).map(
                sorted
            ),
            title=st.text(max_size=3),
        ).map(with_a_title_of_its_own),
        max_size=12,
    ),
    max_size=8,
)


def name(item):
    named = item.guid or item.link
    return (item.guid, item.link) if named else ("", "", item.title)


@given(FEEDS)
def test_every_item_is_new_in_the_round_in_which_it_comes_and_only_then(feeds):
    state, known = None, {}
    for feed in feeds:
        dates = {}
        for one in feed:
            dates.setdefault(name(one), set()).update(one.dates)
        outcome = new_items(feed, state)
        state = outcome.state
        unknown = [one for one in dates if one not in known]
        changed = [one for one in dates if known.get(one, dates[one]) != dates[one]]
        if len(changed) >= 3 and len(changed) + len(unknown) == len(dates):
            assert outcome.redated == len(changed)
            changed = []
        assert [name(one) for one in outcome.new] == [
            one for one in dates if one in unknown or one in changed
        ]
        known |= dates
