"""What is known of requests, for as long as they are there."""

import gc
import weakref

from scrapy import Request

from frontier.node.delivery import Delivery
from frontier.session.session import RequestStates


def test_what_is_adopted_goes_with_its_request():
    states, root = RequestStates(), Delivery(name=b"root")
    child = Delivery(name=b"child", parents=(root,), request=Request("http://a/"))
    taken = child.take()
    states.of(taken).delivery = child
    gone = weakref.ref(taken)

    del taken, child
    gc.collect()
    assert gone() is None


def test_a_robots_txt_stands_on_what_the_request_stands_on_that_waits_for_it():
    states, request, asks = RequestStates(), Request("http://a/"), Request("http://a/r")
    states.of(request).delivery = delivery = Delivery(reservation="reserved")
    states.go_ahead(asks, request)

    assert (states.stands_on(asks), states.reservation(asks)) == ("reserved", None)
    states.withhold(asks)
    assert not delivery.waits, "the request decides by itself"
    states.withhold(request)
    assert delivery.waits
