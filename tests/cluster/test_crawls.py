import re

import pytest

from frontier.cluster.crawls import Launch, carry_call, enter
from frontier.cluster.endings import cancel, finish, reopen
from frontier.cluster.job import Job
from frontier.cluster.membership import Membership
from frontier.cluster.seed_lock import SeedLock
from frontier.errors import (
    ConfigurationError,
    CrawlClosed,
    KeyDamaged,
    NoCrawlYet,
    OtherSchema,
    RunOver,
)
from frontier.model import Member
from frontier.store.client import Call
from frontier.store.keys import SCHEMA

SHAPE = {
    "FRONTIER_PARTITIONS": 64,
    "FRONTIER_BLOOM_ERROR_RATE": 0.001,
    "FRONTIER_SEEN_TIERS": ["bloom", "set"],
    "REQUEST_FINGERPRINTER_CLASS": "scrapy.utils.request.RequestFingerprinter",
}
TTL = 60.0


@pytest.fixture
def open_crawl(store, unique):
    """Enter the crawl of a spider in a namespace of the test's own."""

    def open_crawl(
        crawl_id="",
        spider="site",
        shape=SHAPE,
        run=store.run,
        run_id="",
        seeds="s",
        join_only=False,
        **arguments,
    ):
        job = Job.of(spider, arguments, [seeds])
        launch = Launch(run_id, job, join_only)
        return enter(run, unique, spider, crawl_id, shape, launch)

    return open_crawl


async def end(store, keys):
    assert await finish(store.run, keys, ttl=TTL) is True


async def test_an_interrupted_crawl_is_resumed_and_a_finished_one_followed(
    open_crawl, store, blocking, db
):
    keys = await open_crawl()
    assert await open_crawl() == keys
    await end(store, keys)

    assert await finish(store.run, keys, ttl=TTL) is False, "it is ended once"
    with pytest.raises(CrawlClosed):
        cancel(blocking(), keys)
    db("HDEL", keys.meta, "schema")  # an older version's
    assert (await open_crawl()).crawl_id == "site-2"


async def test_a_named_crawl_that_has_ended_is_over(open_crawl, store):
    await end(store, await open_crawl("mine"))

    with pytest.raises(RunOver, match=r"crawl mine has ended \(finished\) before"):
        await open_crawl("mine")
    with pytest.raises(
        ConfigurationError, match=r"FRONTIER_CRAWL_ID = 'mine'.*finished.*start URLs"
    ):
        await open_crawl("mine", seeds="others")


async def test_each_job_has_a_crawl_of_its_own(open_crawl, store, caplog):
    ones = [await open_crawl(cat="a"), await open_crawl(cat="b", password="hush")]
    ones += [await open_crawl(cat="b", password="hush", seeds="x")]
    ids = [keys.crawl_id for keys in ones]
    again = [await open_crawl(cat="a"), await open_crawl(cat="b", password="hush")]

    assert ids == ["site-1", "site-2", "site-3"]
    assert [keys.crawl_id for keys in again] == ids[:2]
    first, second = caplog.messages
    assert "site-1 is open for another job (cat = 'b' here, 'a' there; pass" in first
    assert "start URLs: 'x' here, 's' there" in second
    assert "hush" not in f"{caplog.messages} {await store.run([dump(ones[1])])}"

    await end(store, ones[0])
    field = ones[0].meta, "finished_ms"
    await store.run([Call.command("HINCRBY", *field, -90_000)])
    caplog.clear()
    assert (await open_crawl(cat="a")).crawl_id == "site-4"
    (late, other) = caplog.messages
    assert re.search(r"the crawl site-1 of this job ended 9\d s ago \(fini", late)
    assert "FRONTIER_JOIN_ONLY" in late
    assert "site-3 is open" in other


def dump(keys):
    return Call.command("HGETALL", keys.meta)


async def test_a_named_crawl_is_no_other_jobs(open_crawl, caplog):
    await open_crawl("mine", cat="a")

    for others in ({"cat": "b"}, {"spider": "other", "cat": "a"}, {}):
        with pytest.raises(ConfigurationError, match="mine is another job") as refused:
            await open_crawl("mine", **others)
        assert "'site'" in str(refused.value)
        assert "there" in str(refused.value)
    assert (await open_crawl("mine", cat="a", seeds="edited")).crawl_id == "mine"
    assert "'edited' here, 's' there; it goes on" in caplog.messages[-1]


async def test_a_crawl_that_a_command_has_made_is_the_first_jobs(
    open_crawl, store, unique
):
    made = await enter(store.run, unique, "site", "", SHAPE)
    assert await open_crawl(cat="a") == await enter(
        store.run, unique, "site", "", SHAPE
    )
    assert (await open_crawl(cat="b")).crawl_id == "site-2"
    assert (await open_crawl(cat="a")) == made


async def test_join_only_node_opens_no_crawl(open_crawl, store):
    for crawl_id in ("", "mine"):
        with pytest.raises(NoCrawlYet):
            await open_crawl(crawl_id, join_only=True)
        keys = await open_crawl(crawl_id)
        with pytest.raises(NoCrawlYet):
            await open_crawl("other" * bool(crawl_id), join_only=True, cat="a")
        assert await open_crawl(crawl_id, join_only=True) == keys
        await end(store, keys)
        with pytest.raises(RunOver):
            await open_crawl(crawl_id, join_only=True)
    with pytest.raises(NoCrawlYet):  # of this run there is none yet
        await open_crawl(join_only=True, run_id="job 7")
    keys = await open_crawl(run_id="job 7")
    assert await open_crawl(join_only=True, run_id="job 7") == keys
    await end(store, keys)
    with pytest.raises(RunOver):
        await open_crawl(join_only=True, run_id="job 7")


@pytest.mark.parametrize("stored", ["x", "[]", '["a", 1, "b", {}, ""]', "[" * 9999])
async def test_a_job_that_cannot_be_read_is_named(open_crawl, db, stored):
    keys = await open_crawl()
    db("HSET", keys.meta, "job", stored)

    with pytest.raises(KeyDamaged, match="its job is not"):
        await open_crawl()


async def test_a_node_that_comes_late_has_nothing_to_do_if_its_run_is_over(
    open_crawl, store, caplog
):
    await end(store, await open_crawl(run_id="job 7"))

    with pytest.raises(RunOver, match=r"site-1 of the run 'job 7' .*\(finished\)"):
        await open_crawl(run_id="job 7")
    assert (await open_crawl(run_id="job 8")).crawl_id == "site-2"
    assert caplog.messages == []  # it is another run on purpose
    with pytest.raises(RunOver):  # another crawl is open, but not its own
        await open_crawl(run_id="job 7")


async def test_nodes_of_several_runs_are_in_the_crawl_that_is_open(
    open_crawl, blocking
):
    keys = await open_crawl(run_id="job 7")
    assert await open_crawl(run_id="job 8") == keys
    assert await open_crawl() == keys
    cancel(blocking(), keys)

    for run_id in ("job 7", "job 8"):
        with pytest.raises(RunOver, match="canceled"):
            await open_crawl(run_id=run_id)


async def test_a_node_of_the_run_with_other_seeds_has_them_to_do(open_crawl, store):
    await end(store, await open_crawl(run_id="job 7"))

    assert (await open_crawl(run_id="job 7", seeds="others")).crawl_id == "site-2"


async def test_a_named_crawl_of_the_same_run_is_over_and_not_refused(open_crawl, store):
    await end(store, await open_crawl("mine", run_id="job 7"))

    with pytest.raises(RunOver):
        await open_crawl("mine", run_id="job 7")
    with pytest.raises(ConfigurationError, match="'mine': this crawl is finished"):
        await open_crawl("mine", run_id="job 8")
    assert (await open_crawl("other", run_id="job 7")).crawl_id == "other"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FRONTIER_PARTITIONS", 32),
        ("FRONTIER_BLOOM_ERROR_RATE", 0.01),
        ("FRONTIER_SEEN_TIERS", ["set"]),
        ("REQUEST_FINGERPRINTER_CLASS", "mine.Own"),
    ],
)
async def test_node_of_another_shape_is_refused_naming_the_setting(
    open_crawl, name, value
):
    await open_crawl()

    with pytest.raises(ConfigurationError) as caught:
        await open_crawl(shape={**SHAPE, name: value})
    assert str(caught.value).startswith(f"{name} = {value!r}, but the crawl site-1 ")
    assert repr(SHAPE[name]) in str(caught.value)


async def test_a_busy_node_keeps_the_crawl_open_as_long_as_it_lives(
    open_crawl, store, db
):
    keys = await open_crawl()
    node = Membership(store.run, keys, Member("a", 1), 64, ttl=TTL)
    await node.beat(busy=True, report=None)
    assert await finish(store.run, keys, ttl=TTL) is None

    await node.beat(busy=False, report=None)
    other = Membership(store.run, keys, Member("b", 1), 64, ttl=TTL)
    await other.beat(busy=True, report=None)
    assert await finish(store.run, keys, ttl=TTL) is None

    db("HSET", keys.nodes, "b", "1000 1 1")  # b was busy and died
    assert await finish(store.run, keys, ttl=TTL) is True


@pytest.fixture
def lock(store, crawl):
    """Make a node's lock on a seed list."""

    class Lock(SeedLock):
        async def acquire(self):
            return self.read(await store.run(self.hold_calls()))

    def lock(node="a", ttl=TTL):
        return Lock(crawl, "list", node, ttl_ms=int(ttl * 1000))

    return lock


async def test_seed_list_is_loaded_by_one_node(lock, store, crawl):
    a, b = lock("a"), lock("b")

    assert await a.acquire() == "yours"
    assert a.start_salt == b""
    await store.run([carry_call(crawl)])
    await store.run([carry_call(crawl)])  # the first one holds
    assert await b.acquire() == "taken"
    assert await a.acquire() == "yours"
    assert a.start_salt == b.start_salt
    assert len(a.start_salt) == 16
    await store.run([a.loaded_call()])
    assert await b.acquire() == await a.acquire() == "done"


async def test_a_seed_list_whose_loader_died_is_loaded_by_another_one(
    lock, until, db, crawl
):
    assert await lock("a", ttl=0.03).acquire() == "yours"
    await until(lambda: not db("EXISTS", crawl.start_lock("list")))

    assert await lock("b").acquire() == "yours"
    assert await lock("a").acquire() == "taken"


async def test_a_canceled_crawl_is_over_and_nobody_joins_it_again(
    open_crawl, store, blocking
):
    keys = await open_crawl("mine")
    node = Membership(store.run, keys, Member("a", 1), 64, ttl=TTL)
    await node.beat(busy=True, report=None)

    assert cancel(blocking(), keys) == (True, 1)

    assert cancel(blocking(), keys) == (False, 1)
    assert (await node.beat(busy=False, report=None)).state == "canceled"
    assert await finish(store.run, keys, ttl=TTL) is None
    with pytest.raises(RunOver, match="mine has ended .canceled"):
        await open_crawl("mine")


async def test_nodes_join_a_crawl_that_is_opened_again_unless_a_later_one_is_open(
    open_crawl, store, blocking
):
    first = await open_crawl()
    await end(store, first)
    later = await open_crawl()
    for joined in (later, first):
        assert reopen(blocking(), first, "site") == joined.crawl_id
        assert await open_crawl() == joined
        await end(store, joined)
        await finish(store.run, first, ttl=TTL)


@pytest.mark.parametrize("stored", [None, SCHEMA - 1, SCHEMA + 1, "x\n\x1b[1m"])
@pytest.mark.parametrize("state", ["open", "unheard of"])
async def test_a_crawl_of_another_version_is_refused_and_left_as_it_is(
    open_crawl, db, state, stored
):
    keys = await open_crawl()
    db("HSET", keys.meta, "state", state)
    if stored is None:
        db("HDEL", keys.meta, "schema")
    else:
        db("HSET", keys.meta, "schema", stored)
    before = db("HGETALL", keys.meta)

    with pytest.raises(OtherSchema) as refused:
        await open_crawl()

    said = str(refused.value)
    assert f"schema version {'1' if stored is None else str(stored)[:1]}" in said
    assert f"writes {SCHEMA};" in said
    assert "FRONTIER_CRAWL_ID" in said
    assert said.isprintable()
    assert db("HGETALL", keys.meta) == before
    assert (await open_crawl("another")).crawl_id == "another"
