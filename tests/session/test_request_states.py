"""What is known of requests, for as long as they are there."""

import gc
import weakref

from scrapy import Request

from frontier.node.delivery import Delivery
from frontier.session.session import RequestStates


def test_adopted_delivery_is_freed_with_its_request():
    states = RequestStates()
    child = Delivery(parents=(Delivery(),), request=Request("http://a/"))
    taken = child.take()
    states.of(taken).delivery = child
    gone = weakref.ref(taken)

    del taken, child
    gc.collect()
    assert gone() is None
