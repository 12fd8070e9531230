from frontier.cluster.ring import Ring
from frontier.errors import StoreUnavailable
from frontier.model import Member
from frontier.node.outbox import MAX_PER_FLIGHT, hints_of
from frontier.queue.push import FORCE, MARK
from frontier.seen.config import MAX_URLS


def urls(count, start=0):
    return [b"%d" % n for n in range(start, start + count)]


async def test_each_push_gets_one_verdict_in_the_order_of_put(parts, start, new_push):
    node = parts()
    start(node.outbox.run())
    pushes = [new_push(url) for url in (*urls(5), *urls(5), b"x")]
    await node.push(1, *pushes)

    assert [push for push, _ in node.verdicts] == pushes
    assert "".join(v for _, v in node.verdicts) == "nnnnnsssssn"


async def test_more_than_a_round_takes_is_stored_in_order(parts, start, new_push):
    node = parts()
    count = 2 * MAX_PER_FLIGHT + MAX_URLS + 1
    start(node.outbox.run())
    await node.push(0, *(new_push(url) for url in urls(count)))

    assert await node.items(0) == [b"0" + url for url in urls(count)]
    assert len(node.verdicts) == count


async def test_owners_are_told_of_queues_that_were_empty(parts, start, new_push):
    node = parts()
    start(node.outbox.run())
    await node.push(2, new_push(b"1"), new_push(b"2", priority=3))
    await node.push(2, new_push(b"3"))

    assert sorted(node.became_ready) == [(2, "0:a.example"), (2, "3:a.example")]


class OneIsSilent:
    """A store of several servers, of which one does not answer until it *answers*."""

    alone, hangs = False, False

    def __init__(self, store, of_the_silent):
        self._store, self._of_the_silent = store, of_the_silent
        self.where, self.call = store.where, store.call
        self.server_of = store.server_of
        self.answers = False
        self.silent = 0
        """How many calls it has not answered."""

    async def run(self, calls, *, partial=False, copied=False):
        late = [any(k in str(c.parts) for k in self._of_the_silent) for c in calls]
        if self.answers or not any(late):
            return await self._store.run(calls)
        self.silent += sum(late)
        nothing = StoreUnavailable(self.where, "one of its servers is silent")
        if not partial:
            raise nothing
        others = [c for c, is_late in zip(calls, late, strict=True) if not is_late]
        replies = iter(await self._store.run(others))
        return [nothing if is_late else next(replies) for is_late in late]


async def test_what_came_while_a_server_was_silent_is_sent_once_it_answers(
    parts_on, start, new_push, store, crawl, until
):
    several = OneIsSilent(store, [crawl.partition(0).tag])
    node = parts_on(several)
    start(node.outbox.run())
    node.outbox.put(0, new_push(b"0"))
    node.outbox.put(1, new_push(b"1"))
    await until(lambda: several.silent and node.outbox.pending == 1, "the silence")
    node.outbox.put(0, new_push(b"2"))
    await until(lambda: not node.outbox._some.is_set(), "a look at what can be sent")
    assert node.outbox.pending == 2

    several.answers = True
    await until(lambda: not node.outbox.pending, "the answer")
    assert await node.items(0) == [b"00", b"02"]


async def test_a_push_that_is_repeated_does_nothing_and_is_told_the_same(
    parts_on, start, new_push, connect, wire, until
):
    async with wire:
        node = parts_on(connect(wire))
        start(node.outbox.run())
        await node.push(0, new_push(b"seen"))
        node.became_ready.clear()
        wire.lose_replies = True
        pushes = [
            new_push(b"forced", queue_key="b.example", mode=FORCE),
            new_push(b"marked", mode=MARK),
            new_push(b"seen"),
            new_push(b"new"),
        ]
        for push in pushes:
            node.outbox.put(0, push)
        await until(lambda: wire.lost, "the loss")
        wire.lose_replies = False
        await node.outbox.flush()

        assert await node.items(0, "0:b.example") == [b"0forced"]
        assert await node.items(0) == [b"0seen", b"0marked", b"0new"]
        assert "".join(verdict for _, verdict in node.verdicts[1:]) == "ffsn"
        assert (0, "0:b.example") in node.became_ready
        await node.push(0, new_push(b"later"))
        assert (await node.scan(0)).pushed == 5


async def test_what_is_not_kept_any_more_is_told_apart(
    parts, start, new_push, monkeypatch
):
    monkeypatch.setattr("frontier.node.outbox.MAX_KEPT", 2)
    node = parts()
    start(node.outbox.run())
    for url in urls(3):
        await node.push(0, new_push(url))
    await node.push(1, new_push(b"other"))

    assert node.outbox.resend({0: 2, 1: 0}) == (2, 0)
    await node.outbox.flush()
    assert node.outbox.resend({0: 0}) == (1, 1)
    await node.outbox.flush()
    assert node.outbox.resend({}) == (0, 0)
    assert [verdict for _, verdict in node.verdicts] == ["n"] * 4


async def test_what_a_second_failover_forgets_is_put_again_too(
    parts, start, new_push, monkeypatch
):
    monkeypatch.setattr("frontier.node.outbox.MAX_KEPT", 3)
    node = parts()
    start(node.outbox.run())
    for url in urls(3):
        await node.push(0, new_push(url))

    assert node.outbox.resend({0: 2}) == (1, 0)
    await node.outbox.flush()
    await node.push(0, new_push(b"4"))
    assert node.outbox.resend({0: 0}) == (3, 1), "the oldest is not kept any more"
    assert len(node.verdicts) == 4


def test_a_queue_that_became_ready_is_told_to_its_owner_if_that_is_another_node():
    ring = Ring([Member("a", 1), Member("b", 1)], 8)
    every = [(partition, "0:a.example") for partition in range(8)]

    assert hints_of(every, ring, "a") == {
        "b": [f"{partition} 0:a.example" for partition in ring.owned_by("b")]
    }
    assert hints_of(every, Ring([], 8), "a") == {}
