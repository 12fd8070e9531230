import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest


@pytest.fixture
def in_threads(blocking):
    """Run a coroutine once per thread, all at the same moment.

    Each thread has an event loop and a connection of its own: the coroutine is
    called with the thread's number and with what runs its calls.
    """

    def in_threads(count, body):
        start = threading.Barrier(count)
        stores = [blocking() for _ in range(count)]

        def one(number):
            async def run(calls):
                return stores[number].run(calls)

            stores[number].run([])
            start.wait()
            return asyncio.run(body(number, run))

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    return in_threads
