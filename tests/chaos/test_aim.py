import threading

from frontier.queue.item import encode
from tests.chaos.aim import ACK, PUSH, RARE, Aim, draw_aimed, tail_of
from tests.chaos.plan import StoreKind
from tests.chaos.wire import Wire

DONE = b"*1\r\n*8\r\n:1\r\n:4\r\n:1\r\n:0\r\n:0\r\n:0\r\n$2\r\nsn\r\n*0\r\n"
STALE = b"*1\r\n*6\r\n:0\r\n:4\r\n:1\r\n:0\r\n:0\r\n:0\r\n"


def appended(*words):
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%b\r\n" % (len(w), w) for w in words
    )


def test_thirty_seeds_have_each_way_of_losing_a_push():
    plans = [draw_aimed(seed) for seed in range(1, 31)]

    ways = {(plan.store, plan.dies, plan.journals) for plan in plans}
    assert len(ways) == 8
    assert {plan.hides for plan in plans if not plan.dies} == {True, False}
    assert all(plan.safe for plan in plans if plan.store is StoreKind.SINGLE)
    assert {plan.safe for plan in plans if plan.store is StoreKind.CLUSTER} == {
        True,
        False,
    }
    assert draw_aimed(5) == draw_aimed(5)


def test_a_cut_is_before_the_push_that_is_confirmed():
    struck, sizes = [], iter([10, 20])
    aim = Aim(lambda _: next(sizes), lambda *who: struck.append(who), acked=False)
    wire = Wire(0)
    aim.sent(wire, "line", "node", PUSH)  # of another page
    aim.sent(wire, "line", "node", PUSH + RARE)
    aim.answered(wire, "line", STALE)
    aim.sent(wire, "line", "node", PUSH + RARE)
    aim.answered(wire, "other", DONE)
    assert not aim.hit.is_set()
    aim.answered(wire, "line", DONE)

    assert struck == [("node", wire)]
    assert aim.cut == 20


def test_a_cut_waits_for_an_ack_of_the_same_node_at_another_server():
    struck = threading.Event()
    aim = Aim(lambda _: 1, lambda *_: struck.set(), acked=True)
    here, there = Wire(0), Wire(0)
    aim.sent(here, "push", "node", PUSH + RARE)
    aim.answered(here, "push", DONE)
    for wire, name in ((here, "node"), (there, "other")):
        aim.sent(wire, "ack", name, ACK)
        aim.answered(wire, "ack", b":1\r\n")
    assert not struck.is_set()
    aim.sent(there, "ack", "node", ACK)
    aim.answered(there, "ack", b":1\r\n")

    assert struck.is_set()


def test_the_tail_of_a_file_tells_what_it_did():
    tag = b"{frontier:chaos:7}"
    url = "https://a.example/calendar?month=3"
    tail = tail_of(
        appended(b"MULTI")
        + appended(b"SADD", tag + b":set:0:1", b"4611686018427387904")
        + appended(
            b"RPUSH", tag + b":ready:0:a.example", encode({"url": url}, "0:a.example")
        )
        + appended(b"EXEC")
        + appended(b"RPUSH", tag + b":ready:0:a.example", b"cut")[:-3]
    )

    assert tail.urls == {url}
    assert tail.new == {7: 1}
