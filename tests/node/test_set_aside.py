"""What a node does with a damaged partition, on a real server."""

import pytest

from frontier.errors import KeyDamaged
from frontier.node.set_aside import SettingAside, absent
from frontier.queue.reserve import Reservation
from frontier.seen.config import SeenConfig
from frontier.store.client import Call

SHAPE = SeenConfig(has_bloom=True, has_set=True, capacity=1000, error_rate=0.001)


@pytest.fixture
def node(parts):
    node = parts("a")
    node.told = 0

    def on_aside():
        node.told += 1

    node.setting_aside = SettingAside(
        node.context,
        node.store,
        node.inbox,
        SHAPE,
        on_aside=on_aside,
    )
    return node


async def held(node):
    return await node.store.call(Call.command("HLEN", node.keys.partition(0).held))


async def test_what_was_reserved_is_held_as_the_store_cannot_say_it(node):
    await node.leases.acquire([0])
    for number in range(3):
        lease = node.leases.held[0]
        one = Reservation(lease, number, "0:a.example", b"0%d" % number)
        node.inbox.open[one.key] = one
    reserved = node.keys.partition(0).reserved
    await node.store.run([Call.command("SET", reserved, "x")])
    await node.setting_aside.set_aside(0, KeyDamaged("", reserved, "it is no hash"))

    assert await held(node) == 3
    assert node.told == 1
    assert not node.leases.held
    assert not node.inbox.open


async def test_what_is_held_already_stays_held_and_is_not_pushed_again(node, new_push):
    counts = node.keys.partition(0).counts
    push = new_push(b"1")
    assert not await node.setting_aside.hold(0, [push]), "nothing is damaged yet"
    await node.setting_aside.set_aside(0, KeyDamaged("", counts, "it is no hash"))

    assert await node.setting_aside.hold(0, [push])
    assert await node.setting_aside.hold(0, [push])
    assert await held(node) == 1


def test_as_many_fields_are_absent_as_were_asked_for():
    assert absent(Call.command("HMGET", "key", "a", "b", "c")) == [None] * 3
