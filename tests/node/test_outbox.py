from frontier.cluster.ring import Ring
from frontier.model import Member
from frontier.node.ready_queues import hints_of
from frontier.queue.push import FORCE, MARK
from frontier.store.client import Call


def urls(count, start=0):
    return [b"%d" % n for n in range(start, start + count)]


async def test_each_push_gets_one_verdict_in_the_order_of_put(parts, start, new_push):
    node = parts()
    start(node.outbox.run())
    pushes = [new_push(url) for url in (*urls(5), *urls(5), b"x")]
    await node.push(1, *pushes)

    assert [push for push, _ in node.verdicts] == pushes
    assert "".join(v for _, v in node.verdicts) == "nnnnnsssssn"


async def test_pushes_sent_again_after_a_lost_reply_are_queued_once(
    parts_on, start, new_push, connect, wire
):
    node = parts_on(connect(wire))
    start(node.outbox.run())
    await node.push(0, new_push(b"seen"))
    node.became_ready.clear()
    wire.loses = b"EVALSHA"
    pushes = [
        new_push(b"forced", queue_key="b.example", mode=FORCE),
        new_push(b"marked", mode=MARK),
        new_push(b"seen"),
        new_push(b"new"),
    ]
    for push in pushes:
        node.outbox.put(0, push)
    await node.outbox.flush()
    assert wire.lost == 1

    assert await node.items(0, "0:b.example") == [b"0forced"]
    assert await node.items(0) == [b"0seen", b"0marked", b"0new"]
    assert len(node.verdicts) == 5
    assert (0, "0:b.example") in node.became_ready
    await node.push(0, new_push(b"forced", queue_key="b.example", mode=FORCE))
    assert (await node.scan(0)).pushed == 5
    assert not await node.store.call(
        Call.command("EXISTS", node.keys.partition(0).forced)
    )


async def test_resend_repeats_the_last_stored_pushes_each_time(
    parts, start, new_push, monkeypatch
):
    monkeypatch.setattr("frontier.node.outbox.MAX_KEPT", 2)
    node = parts()
    start(node.outbox.run())
    for url in urls(3):
        await node.push(0, new_push(url))

    assert node.outbox.resend() == 2, "the oldest is not kept any more"
    await node.outbox.flush()
    assert node.outbox.resend() == 2
    await node.outbox.flush()
    assert [verdict for _, verdict in node.verdicts] == ["n"] * 3


async def test_pushes_stored_long_ago_are_not_kept_for_resend(
    parts, start, new_push, monkeypatch
):
    monkeypatch.setattr("frontier.node.outbox.KEPT", 0.0)
    monkeypatch.setattr("frontier.node.outbox.KEPT_BY_CLUSTER", 0.0)
    node = parts()
    start(node.outbox.run())
    for url in urls(3):
        await node.push(0, new_push(url))

    assert node.outbox.resend() == 1


def test_hints_of_ready_queues_go_to_owners_other_than_this_node():
    ring = Ring([Member("a", 1), Member("b", 1)], 8)
    every = [(partition, "0:a.example") for partition in range(8)]

    assert hints_of(every, ring, "a") == {
        "b": [f"{partition} 0:a.example" for partition in ring.owned_by("b")]
    }
    assert hints_of(every, Ring([], 8), "a") == {}
