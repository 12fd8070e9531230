import asyncio
import logging

import pytest

from frontier.errors import StoreUnavailable
from frontier.runtime.patience import Patience
from frontier.store.client import Call

PING = [Call.command("PING")]


async def test_an_outage_is_waited_for_and_said_once(
    connect, own_server, until, caplog
):
    patience = Patience(connect(own_server))
    caplog.set_level(logging.WARNING)
    own_server.kill()
    waiting = [asyncio.ensure_future(patience.run(PING)) for _ in range(5)]
    await until(lambda: patience.outages)
    own_server.start()
    await asyncio.gather(*waiting)

    assert patience.outages == 1
    texts = [record.getMessage() for record in caplog.records]
    assert len(texts) == 2
    assert "does not answer" in texts[0]
    assert "answers again after" in texts[1]


async def test_what_may_not_happen_twice_is_not_repeated(connect, own_server):
    patience = Patience(connect(own_server))
    own_server.kill()

    with pytest.raises(StoreUnavailable):
        await patience.once(PING)


async def test_nothing_to_do_needs_no_store(connect, own_server):
    patience = Patience(connect(own_server))
    own_server.kill()

    assert await patience.run([]) == []
