import json

import pytest
from scrapy.utils.request import fingerprint

from frontier.queue.item import decode
from frontier.requests.seen_mode import StartTest
from frontier.requests.stored_request import Allowed
from frontier.seeds.push import Pushes
from frontier.seeds.read import Line, Seed, SeedFault
from frontier.settings.config import Config

URL = "http://a.example/x"


class Spider:
    def parse_post(self):
        """A callback."""


def pushes_of(seed, *, salt=b"", is_seen=True):
    made = Pushes(Config(), fingerprint, Spider, Allowed(), exempt=False)
    return made.of_seed(seed, StartTest(salt, is_seen))


def line(**given):
    return Line("", json.dumps({"url": URL, **given}))


def test_a_line_is_a_url_or_an_object():
    assert Line("", URL).seed() == line().seed() == Seed(URL)


def test_a_seed_is_stored_as_the_request_that_it_says():
    made = line(
        method="post",
        body="\u00e9",
        headers={"X-A": ["1", "2"]},
        meta={"nested": [1, {"a": None}]},
        priority=-2,
        callback="parse_post",
        cb_kwargs={"n": 1},
    )
    ((_, push),) = pushes_of(made.seed())

    assert push.queue == "-2:a.example"
    assert decode(push.item, push.queue) == {
        "url": URL,
        "method": "POST",
        "body": "\u00e9".encode(),
        "headers": {b"X-A": [b"1", b"2"]},
        "meta": {"nested": [1, {"a": None}], "is_start_request": True},
        "priority": -2,
        "callback": "parse_post",
        "cb_kwargs": {"n": 1},
    }


def test_a_callback_has_to_be_one_of_the_spider():
    with pytest.raises(SeedFault, match="'parse_x' is not a callback of the spider"):
        pushes_of(Seed(URL, callback="parse_x"))


def test_oversized_seed_is_refused():
    with pytest.raises(SeedFault, match="can be stored: the request takes"):
        pushes_of(Seed(URL, body="x" * (5 << 20)))


def test_a_salted_seed_is_queued_whatever_the_crawl_began_with():
    (marked, queued) = pushes_of(Seed(URL), salt=b"salt")

    assert (marked[1].queue, queued[1].queue) == ("", "0:a.example")
    assert marked[1].mark != queued[1].mark
    assert marked[0] == queued[0]


def test_a_seed_to_which_links_may_lead_is_marked_as_a_seed_only():
    ((_, plain),) = pushes_of(Seed(URL))
    ((_, push),) = pushes_of(Seed(URL), is_seen=False)
    ((_, salted),) = pushes_of(Seed(URL), is_seen=False, salt=b"salt")

    assert push.queue == salted.queue == "0:a.example"
    assert len({plain.mark, push.mark, salted.mark}) == 3


def test_a_seed_that_names_its_slot_is_in_the_queue_of_the_slot():
    ((partition, push),) = pushes_of(Seed(URL, meta={"download_slot": "slow"}))

    assert push.queue == "0:a.example~slow"
    assert partition == pushes_of(Seed(URL))[0][0]
