import queue
import threading

import pytest

from frontier.errors import WriterStopped
from frontier.group_commit import GroupCommit

SOON = 120  # seconds; how long a test waits for what happens at once


class Groups(GroupCommit[str]):
    """Notes what it takes; goes on with a group when the test lets it."""

    def __init__(self, *, linger=0.0):
        super().__init__("test", "the test is closed")
        self.taken = queue.SimpleQueue()
        self.go_on = threading.Semaphore(0)
        self.error = None
        self.given_up = []
        self._linger = linger
        self._thread.start()

    def add(self, job, size=0):
        return self._add(job, size)

    def _work(self):
        while (jobs := self._take(2, linger=self._linger)) is not None:
            self.taken.put(jobs)
            if jobs:
                assert self.go_on.acquire(timeout=SOON)
                if self.error is not None:
                    raise self.error
                self._committed()

    def _give_up(self, job):
        self.given_up.append(job)


@pytest.fixture
def groups():
    made = []

    def groups(**options):
        made.append(Groups(**options))
        return made[-1]

    yield groups
    for one in made:
        one.go_on.release(100)
        one.close()


def test_group_commit_keeps_order_and_resolves_with_the_group(groups):
    one = groups()
    first = one.add("a", 1)
    assert one.taken.get(timeout=SOON) == ["a"]
    numbers = [one.add(job, 10) for job in "bcd"]
    barriers = [one.durable(number) for number in numbers]
    assert (first, numbers) == (1, [2, 3, 4])
    assert (one.pending, one.pending_bytes) == (4, 31)

    one.go_on.release()
    assert one.taken.get(timeout=SOON) == ["b", "c"]
    assert one.durable(1).done()
    assert not barriers[0].done()
    assert (one.pending, one.pending_bytes) == (3, 30)

    one.go_on.release()
    assert one.taken.get(timeout=SOON) == ["d"]
    assert [barrier.done() for barrier in barriers] == [True, True, False]

    one.go_on.release()
    assert one.durable().result(SOON) is None
    assert (one.pending, one.pending_bytes) == (0, 0)


def test_group_commit_lingers_until_somebody_waits(groups):
    one = groups(linger=15 * SOON)
    one.add("a")
    one.add("b")
    assert one.taken.empty()

    barrier = one.durable()
    assert one.taken.get(timeout=SOON) == ["a", "b"]
    one.go_on.release()
    assert barrier.result(SOON) is None


def test_group_commit_failure_rejects_later_jobs_in_order(groups, caplog):
    one = groups()
    one.add("a", 7)
    assert one.taken.get(timeout=SOON) == ["a"]
    one.add("b")
    one.add("c")
    barriers = [one.durable(number) for number in (1, 3)]
    assert not barriers[0].cancel()
    one.error = LookupError("a bug")
    one.go_on.release()

    for barrier in barriers:
        error = barrier.exception(SOON)
        assert isinstance(error, WriterStopped)
        assert error.__cause__ is one.failure
    assert isinstance(one.failure, LookupError)
    assert one.given_up == ["a", "b", "c"]
    assert (one.pending, one.pending_bytes) == (0, 0)
    assert "the test thread failed" in caplog.text
    with pytest.raises(WriterStopped, match="a bug"):
        one.durable(one.add("d")).result(0)
