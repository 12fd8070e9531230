"""Journals are compacted; a rebuild of what is left restores the same crawl."""

import asyncio
import itertools
import os
import random
import secrets
import signal
import subprocess
import sys
import time

import pytest

from frontier.cluster.shared_settings import crawl_settings
from frontier.node.journal import compaction, writer
from frontier.node.journal.compaction import compact, is_due, only_one
from frontier.node.journal.entries import (
    Acked,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    frame,
    read,
    replaced_by,
)
from frontier.node.journal.rebuild import Rebuild
from frontier.queue.item import encode
from frontier.settings.config import Config
from frontier.store.keys import CrawlKeys
from frontier.urls.fingerprint import seen_hash
from tests.node.journal.test_rebuild import CONFIG, SETTINGS, acked, pushed

NOW = 1_900_000_000_000
"""Server milliseconds at which what is put back is due: later than any test."""


def again(name, push, due=NOW):
    """The request *push*, of the page *name*, is done and is to be fetched again."""
    item = encode({"url": f"http://a.example/{name}"}, push.queue)
    digest = acked(push).digest
    return PutAgain(push.partition, digest, push.queue, item, due)


def as_push(put):
    return Pushed(put.partition, "f", 2**62, put.queue, put.item)


class Directory:
    """Journals of one crawl."""

    def __init__(self, path, namespace, crawl_id="site-7"):
        self.path, self.namespace, self.crawl_id = path, namespace, crawl_id
        self.crawl = (namespace, crawl_id)
        self.serial = itertools.count()
        path.mkdir(exist_ok=True)

    def write(self, *entries, node="a", suffix="", tail=b""):
        header = Header(
            self.namespace, self.crawl_id, "site", node, crawl_settings(CONFIG)
        )
        name = f"site-7-20260102030405000-{next(self.serial):05}-{node}.journal{suffix}"
        path = self.path / name
        path.write_bytes(b"".join(map(frame, (header, *entries))) + tail)
        return path

    def compact(self, **options):
        return compact(
            self.path, self.crawl, **{"min_bytes": 0, "age_s": 0.0, **options}
        )

    def names(self):
        return sorted(p.name for p in self.path.iterdir() if "journal" in p.name)

    @property
    def size(self):
        return sum(p.stat().st_size for p in self.path.glob("*.journal"))


@pytest.fixture
def directory(tmp_path, unique):
    return Directory(tmp_path / "journals", unique)


@pytest.fixture
def restored(blocking, db):
    """What a rebuild makes of the journals of a directory: every key of the crawl."""
    store = blocking()

    def restored(directory, *others):
        paths = [directory.path, *(each.path for each in others)]
        outcome = Rebuild(store, directory.namespace, "site-7", paths).run()
        assert not outcome.bad
        keys = CrawlKeys(directory.namespace, "site-7")
        found = {}
        for partition in range(CONFIG.partitions):
            mine = keys.partition(partition)
            for name in sorted(store.scan(f"{mine.tag}:*")):
                key = name.decode()
                short = key.removeprefix(mine.tag)
                kind = db("TYPE", key)
                kind = kind.decode() if isinstance(kind, bytes) else kind
                if kind == "list":
                    found[partition, short] = sorted(db("LRANGE", key, 0, -1))
                elif kind == "set":
                    seen = found.setdefault((partition, "seen"), [])
                    seen[:] = sorted([*seen, *db("SMEMBERS", key)])
                elif kind == "zset":
                    found[partition, short] = sorted(db("ZRANGE", key, 0, -1))
                elif short == ":counts":
                    counts = db("HMGET", key, "ready", "waiting", "acked", "pushed")
                    found[partition, short] = [int(n or 0) for n in counts]
            db("DEL", *(store.scan(f"{mine.tag}:*") or ["none"]))
        db("DEL", keys.meta())
        return found

    return restored


def drawn(dice, urls=60, files=6, rounds=3):
    """The journals of nodes that crawl *urls* again and again, a list for each file."""
    found = [[] for _ in range(files)]

    def note(entry):
        found[dice.randrange(files)].append(entry)

    for n in range(urls):
        partition = dice.randrange(CONFIG.partitions)
        push = pushed(str(n), partition=partition)
        note(push)
        for _ in range(dice.randrange(3)):  # links to it, which have other depths
            depth = dice.randrange(5)
            note(pushed(str(n), partition=partition, meta={"depth": depth}))
        state = dice.choice(["queued", "done", "again", "forced"])
        if state == "forced":
            for _ in range(dice.randrange(1, 4)):
                force = pushed(str(n), mode="f", partition=partition, priority=1)
                note(force)
                if dice.random() < 0.7:
                    note(acked(force))
        if state in ("done", "forced"):
            note(acked(push))
        last = push
        if state == "again":
            for turn in range(dice.randrange(1, rounds + 1)):
                put = again(n, last, due=NOW + turn)
                note(put)
                last = as_push(put)
            if dice.random() < 0.3:
                note(acked(last))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_a_rebuild_restores_the_same(tmp_path, unique, restored, seed):
    whole, less = (
        Directory(tmp_path / name, f"{unique}{name}") for name in ("whole", "less")
    )
    for entries in drawn(random.Random(seed)):
        whole.write(*entries)
        less.write(*entries)
    before = less.size

    done = less.compact()

    assert (done.files, done.before) == (6, before)
    assert done.after == less.size < before
    assert restored(less) == restored(whole)


@pytest.mark.parametrize("seed", range(4))
def test_what_was_compacted_is_compacted_again_with_what_came_since(
    tmp_path, unique, restored, seed
):
    whole, less = (
        Directory(tmp_path / name, f"{unique}{name}") for name in ("whole", "less")
    )
    for number, entries in enumerate(drawn(random.Random(seed), urls=90, files=9)):
        whole.write(*entries)
        less.write(*entries)
        if number % 3 == 2:
            assert less.compact()
    assert len(less.names()) == 1

    assert restored(less) == restored(whole)


def test_acks_of_pushes_in_another_directory_are_kept(tmp_path, unique, restored):
    here, there = (
        Directory(tmp_path / "here", unique),
        Directory(tmp_path / "there", unique),
    )
    one, two = pushed("1"), pushed("2", mode="f")
    there.write(one, two, pushed("3"))
    here.write(acked(one), acked(two))

    here.compact()

    found = restored(here, there)
    assert [len(v) for (_, what), v in found.items() if ":ready:" in what] == [1]


def test_rounds_of_the_same_pages_leave_the_journals_as_small_as_they_were(directory):
    pages = [pushed(str(n)) for n in range(50)]
    directory.write(*pages)
    last, sizes = pages, []
    for _ in range(20):
        puts = [again(n, one) for n, one in enumerate(last)]
        directory.write(*puts)
        last = [as_push(put) for put in puts]
        directory.compact()
        sizes.append(directory.size)

    assert max(sizes) < 2.1 * sizes[0]  # it waits until as much has come again
    assert len(directory.names()) == 1


def test_a_done_url_takes_ten_bytes(directory):
    pages = [pushed(str(n)) for n in range(10_000)]
    directory.write(*pages, *map(acked, pages))

    done = directory.compact()

    assert done.after < 10 * len(pages)


def test_what_may_still_be_compared_with_the_store_stays(directory):
    old, new = directory.write(pushed("1")), directory.write(pushed("2"))
    live = directory.write(pushed("3"), suffix=".open")
    os.utime(old, (1, time.time() - 7300))

    assert directory.compact(age_s=7200).files == 1

    assert not old.exists()
    assert new.exists()
    assert live.exists()


def test_a_damaged_journal_stays_as_it_is(directory):
    bad = directory.write(pushed("1"), tail=b"\xffJ damaged")
    good = directory.write(pushed("2"))
    data = bad.read_bytes()

    directory.compact()

    assert bad.read_bytes() == data
    assert not good.exists()


def test_journals_of_other_crawls_are_left_alone(directory, unique):
    other = Directory(directory.path, unique, "site-8")
    other.serial = itertools.count(500)
    theirs = other.write(pushed("1"))
    directory.write(pushed("2"))

    directory.compact()

    assert theirs.exists()
    assert len(directory.names()) == 2


def test_it_is_due_when_as_much_has_come_as_was_compacted(directory):
    directory.write(*[pushed(str(n)) for n in range(100)])
    least = directory.size

    assert not is_due(directory.path, directory.crawl, least + 1, 0)
    assert is_due(directory.path, directory.crawl, least, 0)
    directory.compact()
    directory.write(pushed("x"))
    assert not is_due(directory.path, directory.crawl, 1, 0)
    directory.write(*[pushed(str(n)) for n in range(100)])
    assert is_due(directory.path, directory.crawl, 1, 0)


def test_only_one_process_compacts(directory):
    directory.write(pushed("1"))

    with only_one(directory.path, wait=False) as alone:
        assert alone
        assert directory.compact() is None
    assert directory.compact()


@pytest.mark.parametrize("name", ["../x.journal", "x", ".journal", "a/b.journal", 7])
def test_a_journal_names_no_files_but_journals(directory, name):
    header = Header(directory.namespace, "site-7", "site", "a", {}, "", compacted=True)
    raw = frame(header) + _raw(["r", [name]])
    (directory.path / "site-7-x.journal").write_bytes(raw)

    assert replaced_by([directory.path]) == set()


def _raw(value):
    import struct
    import zlib

    import msgpack

    payload = msgpack.packb(value)
    return struct.pack(">2sII", b"\xffJ", len(payload), zlib.crc32(payload)) + payload


def command_of(directory):
    module = [sys.executable, "-m", "frontier.node.journal.compaction"]
    return [*module, str(directory.path), *directory.crawl, "0", "0", "384"]


def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(
    tmp_path, unique, restored
):
    """Real processes, killed at moments that are drawn, and run again."""
    names = ("whole", "less", "calm")
    whole, less, calm = (Directory(tmp_path / n, f"{unique}{n}") for n in names)
    for entries in drawn(random.Random(1), urls=3000, files=8):
        for each in (whole, less, calm):
            each.write(*entries)
    expected, killed = restored(whole), 0
    took = time.monotonic()
    subprocess.run(command_of(calm), check=True, stdout=subprocess.PIPE)
    took = time.monotonic() - took
    for number in range(8):  # the last ones early, should it be quicker than it was
        child = subprocess.Popen(command_of(less), stdout=subprocess.PIPE)
        part = (0.3 + 0.7 * secrets.randbelow(1000) / 1000) / (1 + number // 2)
        try:
            child.wait(took * part)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            killed += 1
        child.communicate()
        assert restored(less) == expected

    assert killed
    less.compact()
    assert restored(less) == expected
    assert [name for name in less.names() if not name.endswith(".journal")] == []


@pytest.mark.parametrize("step", ["rename", "unlink"])
def test_a_kill_around_the_moment_that_counts(
    tmp_path, unique, restored, monkeypatch, step
):
    whole, less = (
        Directory(tmp_path / name, f"{unique}{name}") for name in ("whole", "less")
    )
    for entries in drawn(random.Random(2)):
        whole.write(*entries)
        less.write(*entries)
    original = getattr(type(less.path), step)

    class Killed(BaseException):
        pass

    def kill(path, *arguments, **options):
        original(path, *arguments, **options)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(less.path), step, kill)
        with pytest.raises(Killed):
            less.compact()

    assert len(less.names()) > 1
    assert restored(less) == restored(whole)
    less.write(pushed("more"))
    whole.write(pushed("more"))
    less.compact()
    assert len([name for name in less.names() if name.endswith(".journal")]) == 1
    assert restored(less) == restored(whole)


def test_the_entries_of_a_large_journal_are_compared_part_by_part(
    tmp_path, unique, restored, monkeypatch
):
    monkeypatch.setattr(compaction, "PART_BYTES", 2000)
    whole, less = (
        Directory(tmp_path / name, f"{unique}{name}") for name in ("whole", "less")
    )
    for entries in drawn(random.Random(3), urls=300):
        whole.write(*entries)
        less.write(*entries)

    less.compact()

    assert restored(less) == restored(whole)


def test_a_compacted_journal_has_no_numbers_of_pushes(directory):
    directory.write(pushed("1")._replace(number=7))

    done = directory.compact()

    pushes = [entry for entry in read(done.path) if isinstance(entry, Pushed)]
    assert [push.number for push in pushes] == [0]
    assert seen_hash(b"1") == pushes[0].mark
    assert digest_of(pushes[0].queue, pushes[0].item) == acked(pushed("1")).digest
    assert not [entry for entry in read(done.path) if isinstance(entry, Acked)]


async def test_a_node_has_the_journals_compacted_while_it_runs(
    directory, monkeypatch, restored, caplog
):
    monkeypatch.setattr(writer, "COMPACT_EVERY_S", 0.01)
    monkeypatch.setattr(compaction, "AGE_S", 0.0)
    for entries in drawn(random.Random(4)):
        directory.write(*entries)
    settings = {"FRONTIER_JOURNAL_DIR": str(directory.path), "FRONTIER_NODE_ID": "n"}
    settings |= {"FRONTIER_JOURNAL_COMPACT_BYTES": 1000, **SETTINGS}
    config = Config.from_settings(settings)
    keys = CrawlKeys(directory.namespace, "site-7")
    before = directory.size

    with caplog.at_level("INFO"):
        node = await writer.Journaling.begin(
            config, keys, "site", crawl_settings(CONFIG)
        )
        task = asyncio.create_task(node.compact())
        async with asyncio.timeout(60):
            while "compacted 6 journals" not in caplog.text:
                await asyncio.sleep(0.01)
        task.cancel()
        await node.close()

    assert directory.size < before
    assert sum("compacted" in name for name in directory.names()) == 1
    assert restored(directory)


async def test_a_directory_that_vanishes_is_told_and_tried_again(
    directory, monkeypatch, caplog
):
    monkeypatch.setattr(writer, "COMPACT_EVERY_S", 0.01)
    header = Header(directory.namespace, "site-7", "site", "a", {})

    def gone(*given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(compaction, "is_due", gone)
    task = asyncio.create_task(writer._compact(directory.path, header, 1, 0o600))
    async with asyncio.timeout(60):
        while caplog.text.count("cannot be compacted") < 2:
            await asyncio.sleep(0.01)
    assert not task.done()
    task.cancel()
