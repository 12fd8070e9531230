import pytest

from frontier.errors import LeaseLost
from frontier.model import Order
from frontier.queue import spill as spilling
from frontier.queue.spill import KEPT, LEAST
from frontier.queue.spill_files import BLOCK, is_address

A = "0:a.example"
MANY = LEAST + 3 * BLOCK


@pytest.fixture
def filled(parts, start, new_push):
    """Make a node with *MANY* URLs of one host."""

    async def filled(name="a", **options):
        node = parts(name, partitions=1, size=300, cap=10_000, **options)
        start(node.outbox.run())
        await node.push(0, *(new_push(b"%d" % n) for n in range(MANY)))
        await node.leases.acquire([0])
        await node.inbox.load_queues([0])
        return node

    return filled


async def fetch_all(node, until, count):
    """Take *count* URLs as they come, and ack them."""
    taken = []
    while len(taken) < count:
        await until(lambda: len(node.inbox))
        while (reservation := node.inbox.take()) is not None:
            taken.append(int(reservation.item[1:]))
            node.inbox.finish(reservation)
            node.inbox.forget(reservation)
    return taken


@pytest.mark.parametrize("order", Order)
async def test_a_long_list_is_compressed_and_comes_back_in_order(
    filled, until, start, new_push, order
):
    node = await filled(order=order, queue_max_bytes=1_000)
    await node.spilling.look()

    scan = await node.scan(0)
    assert scan.ready == MANY
    assert scan.spilled == node.spilling.spilled
    assert KEPT <= scan.ready - scan.spilled <= KEPT + BLOCK
    assert len(await node.items(0)) == scan.ready - scan.spilled + 1

    await node.push(0, new_push(b"%d" % MANY))
    start(node.inbox.run(), node.spilling.run())
    found = await fetch_all(node, until, MANY + 1)
    assert found == list(range(MANY + 1))[:: 1 if order is Order.BFS else -1]
    assert node.spilling.restored == node.spilling.spilled
    scan = await node.scan(0)
    assert (scan.ready, scan.spilled, scan.spilled_bytes) == (0, 0, 0)


@pytest.mark.parametrize("order", Order)
async def test_blocks_go_to_files_and_come_back_in_order(
    filled,
    until,
    start,
    new_push,
    order,
    tmp_path,
    db,
    crawl,
    parts,
    caplog,
    monkeypatch,
):
    monkeypatch.setattr(spilling, "RETRY", 0.01)
    directory = tmp_path / "spill"
    dead = await filled(order=order, queue_max_bytes=1_000, spill_dir=directory)
    await dead.spilling.look()
    await dead.push(0, *(new_push(b"%d" % n) for n in range(MANY, MANY + LEAST)))
    await dead.spilling.look()
    scan = await dead.scan(0)
    paths = list(directory.glob("*/*"))
    blocks = db("LRANGE", crawl.partition(0).spilled(A), 0, -1)
    assert len(paths) == sum(is_address(block) for block in blocks) == len(blocks) - 2
    assert scan.shelved_bytes == sum(path.stat().st_size for path in paths)
    assert scan.spilled_bytes == sum(map(len, blocks))

    db("DEL", crawl.partition(0).lease)
    node = parts(
        "b", partitions=1, size=300, cap=10_000, order=order, spill_dir=directory
    )
    await node.leases.acquire([0])
    await node.inbox.load_queues([0])
    hidden = directory.rename(tmp_path / "elsewhere")
    start(node.inbox.run(), node.spilling.run())
    near = BLOCK * 3
    found = await fetch_all(node, until, near)
    await until(lambda: "cannot be read from their files" in caplog.text)
    assert (await node.scan(0)).ready > 0
    hidden.rename(directory)
    found += await fetch_all(node, until, MANY + LEAST - len(found))

    assert found == list(range(MANY + LEAST))[:: 1 if order is Order.BFS else -1]
    scan = await node.scan(0)
    assert (scan.spilled, scan.spilled_bytes, scan.shelved_bytes) == (0, 0, 0)


async def test_a_file_that_was_changed_becomes_a_dead_letter(
    filled, until, start, tmp_path, db, crawl
):
    node = await filled(order=Order.DFS, queue_max_bytes=1_000, spill_dir=tmp_path)
    await node.spilling.look()
    blocks = db("LRANGE", crawl.partition(0).spilled(A), 0, -1)
    last = [block for block in blocks if is_address(block)][-1]
    paths = list(tmp_path.glob("*/*"))
    (path,) = (path for path in paths if last.endswith(path.name.encode()))
    changed = path.read_bytes()
    path.write_bytes(changed[:-1] + bytes([changed[-1] ^ 1]))
    start(node.inbox.run(), node.spilling.run())
    found = await fetch_all(node, until, MANY - BLOCK)

    first = (len(paths) - 1) * BLOCK
    expected = [n for n in range(MANY) if not first <= n < first + BLOCK]
    assert found == expected[::-1]
    scan = await node.scan(0)
    assert (scan.ready, scan.dead, scan.shelved_bytes) == (0, 1, 0)


async def test_blocks_stay_where_they_are_if_the_disk_takes_none(
    filled, tmp_path, caplog
):
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "below"
    node = await filled(queue_max_bytes=1_000, spill_dir=directory)
    await node.spilling.look()
    await node.spilling.look()

    scan = await node.scan(0)
    assert scan.spilled > 0
    assert scan.shelved_bytes == 0
    assert caplog.text.count("cannot be written to files") == 1


async def test_what_fits_the_budget_stays_as_it_is(filled):
    node = await filled(queue_max_bytes=MANY * 200)
    assert await node.spilling.look()

    assert (await node.scan(0)).spilled == 0


async def test_no_more_is_compressed_than_the_budget_asks_for(filled):
    node = await filled(queue_max_bytes=MANY * 11)  # of 12 to 14 that each takes
    assert await node.spilling.look()

    assert 0 < (await node.scan(0)).spilled <= 2 * BLOCK


async def test_a_new_holder_finds_what_the_dead_one_has_compressed(
    filled, parts, until, start, db, crawl, new_push
):
    dead = await filled(queue_max_bytes=1_000)
    await dead.spilling.look()
    more = [b"%d" % n for n in range(MANY, MANY + LEAST)]
    await dead.push(0, *map(new_push, more))
    held = dead.leases.held[0]
    db("DEL", crawl.partition(0).lease)  # it has ended, and its node knows nothing
    node = parts("b", partitions=1, size=300, cap=10_000)
    await node.leases.acquire([0])
    await node.inbox.load_queues([0])

    with pytest.raises(LeaseLost):
        await dead.spilling.spill(held, A)
    await dead.spilling.look()
    assert not dead.leases.held, "and it has learned it"

    start(node.inbox.run(), node.spilling.run())
    assert await fetch_all(node, until, MANY + LEAST) == list(range(MANY + LEAST))


async def test_short_lists_are_let_alone_and_told_of_once(
    parts, start, new_push, caplog
):
    node = parts(partitions=1, queue_max_bytes=1_000)
    start(node.outbox.run())
    urls = [(b"%d" % n, f"{n % 50}.example") for n in range(2_000)]
    await node.push(0, *(new_push(*url) for url in urls))
    await node.leases.acquire([0])
    assert not await node.spilling.look()
    assert not await node.spilling.look()

    assert (await node.scan(0)).spilled == 0
    assert caplog.text.count("long enough to be compressed") == 1


async def test_a_lease_that_is_gone_already_is_not_lost_again(filled):
    node = await filled(queue_max_bytes=1_000)
    held = node.leases.held[0]
    await node.spilling._lose(LeaseLost(1, held.token))
    await node.spilling._lose(LeaseLost(0, held.token - 1))

    assert node.leases.held == {0: held}
    assert node.inbox.knows(0)


async def test_a_block_that_was_taken_meanwhile_goes_to_no_file(
    filled, tmp_path, monkeypatch
):
    node = await filled(queue_max_bytes=1_000, spill_dir=tmp_path)
    files = node.spilling._shelving
    shelve, first, spared = files.shelve, files._first, []

    async def late(name):
        index, block = await first(name)
        return index + 1, block  # where another one is by now

    async def noted(lease, queue):
        spared.append(await shelve(lease, queue))
        return spared[-1]

    monkeypatch.setattr(files, "_first", late)
    monkeypatch.setattr(files, "shelve", noted)
    await node.spilling.look()

    assert spared == [0]
    scan = await node.scan(0)
    assert scan.spilled > 0
    assert scan.shelved_bytes == 0
