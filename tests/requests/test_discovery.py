"""Which page led to a URL, over which hops: what requests carry, and is believed."""

from contextlib import suppress
from types import SimpleNamespace

import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK
from scrapy.spiders import Spider

from frontier.download.outcomes import ROBOTS, UNKNOWN, outcome_of
from frontier.model import Found
from frontier.queue.item import decode, encode
from frontier.requests.discovery import (
    META,
    MOST_OUTLINKS,
    URL_LIMIT,
    extended,
    found_of,
    noting_of,
)
from frontier.requests.stored_request import Recorder, from_record
from frontier.session.session import RequestStates

PAGE = "http://a.example/page"
SEED = "http://a.example/"


def carried(value, **meta):
    return Request("http://a.example/x", meta={META: value, **meta})


def test_discovery_survives_the_store():
    spider = Spider("s")
    request = carried([PAGE, "LL", SEED, 0], redirect_urls=[PAGE + "2"])

    record = encode(Recorder(spider).record(request))
    taken = from_record(decode(record), spider)

    assert found_of(taken) == Found(PAGE + "2", "LLR", SEED) == found_of(request)


def test_redirects_before_the_request_was_made_are_not_its_own():
    # as of a spider that hands on response.meta
    request = carried([PAGE, "LRL", SEED, 1], redirect_urls=["http://a.example/old"])

    assert found_of(request) == Found(PAGE, "LRL", SEED)


def test_a_seed_that_redirects_is_the_seed_of_where_it_leads():
    request = carried(["", "", "", 0], redirect_urls=[SEED, PAGE])

    assert found_of(request) == Found(PAGE, "RR", SEED)


def test_hops_are_counted_where_they_are_too_many_to_write_out():
    hops = ""
    for _ in range(53):
        hops = extended(hops, "L")
    assert hops == "3+" + "L" * 50


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "LLL",
        [],
        [PAGE, "L", SEED],
        [PAGE, "ll", SEED, 0],
        [PAGE, "L\r\nvia: x", SEED, 0],
        [b"x", "L", SEED, 0],
        [PAGE, "L" * 51, SEED, 0],
        [PAGE, "L", SEED, -1],
        [PAGE, "L", SEED, True],
        {"a": 1},
    ],
)
def test_malformed_discovery_meta_is_ignored(value):
    found = found_of(carried(value, depth=1))

    assert found == Found("", None, "")


def test_hops_of_requests_without_discovery_meta():
    robots = Request("http://a.example/robots.txt", callback=NO_CALLBACK)
    media = Request("http://a.example/a.png", callback=NO_CALLBACK)
    fed = Request("http://a.example/")
    found = Request("http://a.example/", meta={"depth": 3})

    assert [found_of(each).hops for each in (robots, media, fed, found)] == [
        "P",
        None,
        "",
        None,
    ]


def test_errors_that_nobody_knows_have_a_code_too():
    assert outcome_of(RuntimeError("x")).code == UNKNOWN
    assert outcome_of(IgnoreRequest("Forbidden by robots.txt")).code == ROBOTS


class Archive:
    """Keeps what it is told."""

    def __init__(self):
        self.told = []

    def note_outlinks(self, outlinks):
        self.told.append(outlinks)


@pytest.fixture
def noted():
    """Run an output of a page's callback through; return what the archive got."""

    def noted(output, end=None):
        request = Request("http://a.example/")
        states = RequestStates()
        states.of(request).stored = "its page"
        connection = SimpleNamespace(
            requests=states,
            archive=Archive(),
            config=SimpleNamespace(warc_outlinks=True),
        )
        links = noting_of(connection)(output, request)
        with suppress(ZeroDivisionError):
            for number, _ in enumerate(links):
                if number == end:
                    links.close()
        return connection.archive.told

    return noted


def test_more_outlinks_than_are_recorded_are_counted(noted):
    many = (Request(f"http://a.example/{n}") for n in range(MOST_OUTLINKS + 2))
    long = Request("http://a.example/" + "x" * URL_LIMIT)

    (told,) = noted(iter([long, {"an": "item"}, *many]))

    assert len(told.links) == MOST_OUTLINKS
    assert told.left_out == 3


def test_links_are_recorded_of_a_callback_that_fails_and_of_one_that_is_left(noted):
    def output():
        yield Request("http://a.example/1")
        yield Request("http://a.example/2")
        1 / 0  # noqa: B018 - it fails

    (failed,), (left,) = noted(output()), noted(output(), end=0)

    assert [url[-1] for url, _ in failed.links] == ["1", "2"]
    assert [url[-1] for url, _ in left.links] == ["1"]
    assert noted(iter([{"an": "item"}])) == []
