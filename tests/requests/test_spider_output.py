"""Items share a task as long as none waits, and are told of as Scrapy tells."""

import asyncio
import logging

import pytest
from scrapy import signals
from scrapy.signalmanager import SignalManager
from twisted.internet.defer import succeed

from frontier.requests.spider_output import ItemSignals, PageItems


class Pipeline:
    """Notes which task an item has, and when it begins and ends."""

    def __init__(self, waits=()):
        self.gates = {item: asyncio.Event() for item in waits}
        self.begun, self.ended, self.tasks = [], [], {}

    async def process(self, item):
        self.begun.append(item)
        self.tasks[item] = asyncio.current_task()
        if item in self.gates:
            await self.gates[item].wait()
            assert asyncio.current_task() is self.tasks[item]
        self.ended.append(item)


async def add_all(items, made):
    for item in made:
        await items.add(item)
    await items.ended()


async def test_items_that_wait_for_nothing_are_processed_in_order_by_one_task():
    pipeline = Pipeline()
    await add_all(PageItems(pipeline.process, 100, None), range(50))
    assert pipeline.ended == list(range(50))
    assert len(set(pipeline.tasks.values())) == 1


async def test_a_waiting_item_delays_no_other(until):
    pipeline = Pipeline([1])
    adding = asyncio.create_task(
        add_all(PageItems(pipeline.process, 100, None), range(4))
    )
    await until(lambda: pipeline.ended == [0, 2, 3])
    assert pipeline.begun == [0, 1, 2, 3]
    assert not adding.done()
    pipeline.gates[1].set()
    await adding
    assert pipeline.ended == [0, 2, 3, 1]
    others = {pipeline.tasks[2], pipeline.tasks[3]}
    assert pipeline.tasks[1] not in others


async def test_items_added_while_others_end_are_processed():
    pipeline = Pipeline()
    items = PageItems(pipeline.process, 100, None)
    for item in range(30):
        await items.add(item)
        for _ in range(item % 4):  # the task, its look, its end
            await asyncio.sleep(0)
    await items.ended()
    assert pipeline.ended == list(range(30))


class Sender:
    """What handlers are connected to; they are forgotten with it."""


class Handlers:
    """Some that listen for items, each in another way."""

    def __init__(self, kinds):
        self.heard = []
        self.connected = [getattr(self, kind) for kind in kinds]

    def connect(self, manager):
        for handler in self.connected:
            manager.connect(handler, signals.item_scraped)

    def plain(self, item, spider):
        self.heard.append(("plain", item, spider))
        return "plain"

    def failing(self, item):
        self.heard.append(("failing", item))
        raise ZeroDivisionError

    def deferred(self, item, response):
        self.heard.append(("deferred", item, response))
        return succeed("later")

    async def coroutine(self, item):
        await asyncio.sleep(0)
        self.heard.append(("coroutine", item))
        return "awaited"

    def future(self, item):
        self.heard.append(("future", item))
        return self.coroutine(item)

    def failing_later(self):
        return self._fails()

    async def _fails(self):
        await asyncio.sleep(0)
        raise ZeroDivisionError


PLAIN = ["plain", "failing"]
ALL = [[], PLAIN, ["deferred", "plain", "future"], ["failing_later"]]


@pytest.mark.filterwarnings("ignore:.*returned a Deferred")
@pytest.mark.parametrize("kinds", [*ALL, ["coroutine", *PLAIN]], ids=",".join)
def test_handlers_are_called_as_scrapy_calls_them(kinds, caplog):
    def hear(cls):
        handlers = Handlers(kinds)

        async def run():
            manager = cls(sender=Sender())
            handlers.connect(manager)
            return await manager.send_catch_log_async(
                signals.item_scraped, item="item", response=None, spider="spider"
            )

        caplog.clear()
        with caplog.at_level(logging.DEBUG):
            told = asyncio.run(run())
        return (
            sorted(handlers.heard),
            [(one.__name__, repr(result)) for one, result in told],
            [
                (one.name, one.levelname, one.exc_info[0], one.spider)
                for one in caplog.records
                if one.name.startswith("scrapy")
            ],
        )

    assert hear(ItemSignals) == hear(SignalManager)
