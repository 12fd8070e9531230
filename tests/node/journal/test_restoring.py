"""Journals of nodes that are gone: what the store has forgotten of them comes back."""

import asyncio
import os
import time

import pytest

from frontier.errors import ConfigurationError, CrawlClosed
from frontier.node.journal.entries import OPEN, Acked, Header, Pushed, digest_of, frame
from frontier.node.journal.restoring import Restoring, restore
from frontier.node.journal.writer import Journal
from frontier.queue.item import encode
from frontier.queue.push import FORCE, TEST
from frontier.seen.seen_set import stored_crawl
from frontier.store.client import Call
from frontier.urls.fingerprint import seen_hash

PARTITION = 1
QUEUE = "0:a.example"
HOUR = 3600


def entry(name, number, mode=TEST, partition=PARTITION, queue=QUEUE):
    item = encode({"url": f"http://a.example/{name}"}, queue)
    return Pushed(partition, mode, seen_hash(name.encode()), queue, item, number)


def acked(pushed):
    return Acked(pushed.partition, digest_of(pushed.queue, pushed.item))


class Dead:
    """A node that is gone, of which the store has the pushes up to a number."""

    def __init__(self, parts, directory):
        self.parts, self.keys, self.directory = parts, parts.keys, directory
        names = (self.keys.namespace, self.keys.crawl_id)
        process = parts.outbox.pusher.process
        self.header = Header(*names, "site", "gone", {}, process)
        self.files = 0

    async def push(self, *entries):
        """Push *entries*, the last of which has the number that the store knows."""
        self.start(self.parts.outbox.run())
        for pushed in entries:
            push = self.parts_push(pushed)
            await self.parts.push(pushed.partition, push)

    def parts_push(self, pushed):
        from frontier.queue.push import Push

        return Push(pushed.mode, pushed.mark, pushed.queue, 0, pushed.item)

    def write(self, *entries, suffix=OPEN, tail=b"", header=None, age=0):
        self.directory.mkdir(exist_ok=True)
        self.files += 1
        stamp = "20260101000000000"
        name = f"site-1-{stamp}-{self.files:05}-gone.journal{suffix}"
        path = self.directory / name
        path.write_bytes(b"".join(map(frame, (header or self.header, *entries))) + tail)
        written = time.time() - age
        os.utime(path, (written, written))
        return path


@pytest.fixture
def dead(parts, start, tmp_path):
    gone = Dead(parts("gone"), tmp_path / "journals")
    gone.start = start
    return gone


@pytest.fixture
def looking(parts, start):
    """A node that lives, and looks at journals in a directory."""

    def looking(directory):
        node = parts("b")
        start(node.outbox.run())

        async def journaled():
            assert not node.outbox.pending, "it notes what the store has"
            node.journaled = len(node.journal)

        node.restoring = Restoring(
            node.outage_retry,
            node.keys,
            node.outbox,
            directory=directory,
            partitions=4,
            journaled=journaled,
        )
        return node

    return looking


async def test_what_is_forgotten_is_pushed_again_and_nothing_else(
    dead, looking, caplog
):
    there, again = entry("there", 1), entry("again", 2, mode=FORCE)
    await dead.push(there, again)
    lost = entry("lost", 3), entry("forced", 3, mode=FORCE)
    elsewhere = entry("elsewhere", 1, partition=2)
    path = dead.write(there, again, *lost, elsewhere, tail=b"\xffJ torn")
    node = looking(dead.directory)
    assert node.restoring.busy

    assert await node.restoring.look_now()
    assert not node.restoring.busy
    items = await node.items(PARTITION)
    assert items == [push.item for push in (there, again, *lost)]
    assert await node.items(2) == [elsewhere.item]
    assert not node.verdicts, "nobody here has asked for them"
    assert node.journaled == len(node.journal) == 3
    assert "lacks pushes of node gone" in caplog.text
    assert "skipped" not in caplog.text
    assert not path.exists()
    assert path.with_name(path.name.removesuffix(OPEN)).exists()
    assert not await node.restoring.look_now()
    assert len(await node.items(PARTITION)) == 4


async def test_what_is_lacking_and_done_is_seen_and_not_fetched_again(dead, looking):
    await dead.push(entry("there", 1))
    done, forced = entry("done", 2), entry("forced", 3, mode=FORCE)
    dead.write(done, forced, acked(done), acked(forced))
    node = looking(dead.directory)
    await node.restoring.look_now()

    assert await node.items(PARTITION) == [entry("there", 1).item]
    await node.push(PARTITION, dead.parts_push(done))
    assert [verdict for _, verdict in node.verdicts] == ["s"]


@pytest.mark.parametrize(("age", "queued"), [(0, 2), (2 * HOUR, 1)])
async def test_where_the_process_is_not_known_a_forced_request_is_told_or_pushed(
    dead, looking, caplog, age, queued
):
    dead.write(entry("page", 1), entry("forced", 2, mode=FORCE), age=age)
    node = looking(dead.directory)
    await node.restoring.look_now()

    assert len(await node.items(PARTITION)) == queued
    assert ("1 requests with dont_filter" in caplog.text) == (queued == 1)


async def test_the_journal_of_a_process_that_lives_is_left(looking, dead):
    journal = Journal(dead.directory, dead.header)
    journal.pushed(entry("page", 5))
    await asyncio.wrap_future(journal.durable())
    node = looking(dead.directory)
    node.restoring.look(closed=True)

    assert not await node.restoring.look_now()
    assert await node.items(PARTITION) == []
    journal.close()


async def test_what_was_closed_lately_is_compared_with_a_store_that_changed(
    dead, looking
):
    await dead.push(entry("there", 1))
    dead.write(entry("there", 1), entry("lost", 2), suffix="")
    dead.write(entry("old", 9), suffix="", age=HOUR)
    node = looking(dead.directory)
    assert not await node.restoring.look_now()

    node.restoring.look(closed=True)
    assert await node.restoring.look_now()
    items = await node.items(PARTITION)
    assert items == [entry(name, 1).item for name in ("there", "lost")]


async def test_a_file_that_is_open_hides_none_that_was_closed(dead, looking):
    dead.write(entry("open", 1))
    other = dead.header._replace(process="another")
    dead.write(entry("closed", 1), header=other, suffix="")
    node = looking(dead.directory)
    node.restoring.look(closed=True)
    await node.restoring.look_now()

    items = await node.items(PARTITION)
    assert items == [entry(name, 1).item for name in ("open", "closed")]


async def test_where_the_last_push_is_known_none_without_a_number_is_made_again(
    dead, looking
):
    old, last = entry("old", 0, mode=FORCE), entry("last", 1)
    await dead.push(last)
    dead.write(old, last)
    node = looking(dead.directory)

    assert not await node.restoring.look_now()
    assert await node.items(PARTITION) == [last.item]


async def test_the_file_that_was_full_just_before_is_looked_at_too(dead, looking):
    dead.write(entry("old", 1), suffix="")
    dead.write(entry("full", 2), suffix="")
    dead.write(entry("last", 3))
    other = dead.header._replace(process="another")
    dead.files = 1
    dead.write(entry("other", 4), suffix="-x.journal", header=other)
    node = looking(dead.directory)
    await node.restoring.look_now()

    items = await node.items(PARTITION)
    assert items == [entry(name, 1).item for name in ("full", "last")]


async def test_what_could_not_be_queued_is_told_and_left(dead, looking, caplog):
    broken = entry("x", 1)._replace(item=b"0\x01\xc1nonsense")
    dead.write(broken, entry("far", 1, partition=4), entry("good", 1))
    node = looking(dead.directory)
    await node.restoring.look_now()

    assert await node.items(PARTITION) == [entry("good", 1).item]
    assert "skipped 1 entries" in caplog.text


async def test_a_crawl_does_not_end_before_the_journals_are_looked_at(
    new_node, server, store, unique, tmp_path, until
):
    directory = tmp_path / "j"
    names = {"journal_dir": directory, "partitions": 4}
    a = new_node(server, "a", **names)
    a._owner.busy = True
    await a.open()
    header = Header(unique, a.keys.crawl_id, "site", "gone", {}, "process")
    lost = entry("lost", 1)
    (directory / "z.journal.open").write_bytes(frame(header) + frame(lost))
    a._owner.busy = False

    reservation = await until(a.take, "what was lost")
    assert reservation.item == lost.item
    assert not a.finished
    a.acks.complete(reservation)
    await a._owner.finished.wait()
    await a.close()


async def test_the_journal_of_a_node_that_dies_is_looked_at_by_the_others(
    dead, looking
):
    node = looking(dead.directory)
    await node.restoring.look_now()
    gone = dead.parts.membership
    deaths = []
    node.heartbeat._deaths._on_death = lambda: deaths.append(node.restoring.look())
    await gone.beat(busy=False, report=None)
    await node.heartbeat.beat()
    assert not deaths
    await node.store.call(Call.command("HDEL", node.keys.nodes(), "gone"))
    await node.store.call(Call.command("INCR", node.keys.epoch()))
    await node.heartbeat.beat()

    assert deaths
    assert node.restoring.busy


@pytest.fixture
def whole(new_node, server, blocking, unique, tmp_path):
    """A crawl that is there, and how to write the journal of a node that is gone."""
    directory, told = tmp_path / "j", []

    async def make(*entries):
        node = new_node(server, "a", partitions=4)
        node._owner.busy = True
        await node.open()
        await node.close()
        directory.mkdir()
        header = Header(unique, "site-1", "site", "gone", {}, "process")
        (directory / "a.journal.open").write_bytes(
            b"".join(map(frame, (header, *entries)))
        )
        return node

    make.directory = directory
    make.restore = lambda: restore(
        blocking(), stored_crawl(blocking(), unique, "site-1"), [directory], told.append
    )
    make.told = told
    return make


async def test_a_command_pushes_what_a_whole_crawl_lacks(whole, store):
    lost, done = entry("lost", 1), entry("done", 2)
    node = await whole(lost, done, acked(done))
    (journal,), aside = await asyncio.to_thread(whole.restore)

    assert (journal.pushed, journal.bad, journal.unsure) == (2, [], 0)
    assert aside == []
    assert whole.told == [1], "how many journals were looked at"
    ready = node.keys.partition(PARTITION).ready(QUEUE)
    items = await store.call(Call.command("LRANGE", ready, 0, -1))
    assert items == [lost.item]
    assert [path.name for path in whole.directory.iterdir()] == ["a.journal"]
    await asyncio.to_thread(whole.restore)  # also what is closed; the URLs are seen
    assert await store.call(Call.command("LLEN", ready)) == 1


async def test_a_command_leaves_a_crawl_that_has_ended(whole, store):
    node = await whole(entry("lost", 1))
    await store.call(Call.command("HSET", node.keys.meta(), "state", "finished"))

    with pytest.raises(CrawlClosed):
        await asyncio.to_thread(whole.restore)
    assert [path.name for path in whole.directory.iterdir()] == ["a.journal.open"]


async def test_a_command_without_a_journal_says_so(whole):
    await whole()
    (whole.directory / "a.journal.open").unlink()

    with pytest.raises(ConfigurationError, match="no journal of the crawl site-1"):
        await asyncio.to_thread(whole.restore)
