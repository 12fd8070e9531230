import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import warm

from frontier import append_file
from frontier.errors import ArchiveError
from frontier.model import Lease
from frontier.node.journal.entries import (
    Acked,
    Header,
    Pushed,
    PutAgain,
    digest_of,
    frame,
    read,
)
from frontier.node.journal.writer import Journal, mend
from frontier.queue.due import Again
from frontier.queue.push import CLAIM, FORCE, TEST, Push
from frontier.queue.reserve import Reservation
from frontier.urls.fingerprint import seen_hash

HEADER = Header("frontier", "site-1", "site", "node-1", {}, "ab12" * 4)
ROOT = Path(__file__).parents[3]
SOON = 240.0
"""Seconds after which what happens at once is said not to have."""


def a_push(number):
    return Pushed(1, "t", seen_hash(b"%d" % number), "0:a.example", b"0\x01%d" % number)


def push(journal, number):
    """Have *journal* told what `a_push` is."""
    what = a_push(number)
    journal.pushed(1, [Push(what.mode, what.mark, what.queue, 0, what.item)])


def ack(journal, item, again=None):
    journal.acked(Reservation(Lease(1, 1, "n"), 1, "0:a.example", item), again)


def entries(directory):
    """All entries but the headers."""
    found = [e for path in sorted(directory.iterdir()) for e in read(path)]
    return [entry for entry in found if not isinstance(entry, Header)]


@pytest.fixture
def full_disk(monkeypatch):
    """Events: the disk is full while the first is set; the second, that it was met."""
    is_full, met, real = threading.Event(), threading.Event(), os.fsync

    def fsync(descriptor):
        if is_full.is_set():
            met.set()
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return is_full, met


@pytest.fixture
def journal(tmp_path):
    made = []

    def journal(**options):
        made.append(Journal(tmp_path / "j", HEADER, **options))
        return made[-1]

    yield journal
    for one in made:
        one.close()


def test_durable_entries_are_in_the_open_file(journal, tmp_path):
    open_one = journal()
    push(open_one, 1)
    ack(open_one, b"0\x011")
    open_one.durable().result(SOON)

    (path,) = (tmp_path / "j").iterdir()
    assert path.name.endswith(".journal.open")
    done = Acked(1, digest_of("0:a.example", b"0\x011"))
    assert entries(tmp_path / "j") == [a_push(1), done]


def test_an_ack_that_puts_back_is_one_entry(journal, tmp_path):
    open_one = journal()
    again = Again("0:a.example", b"0\x01next", 1_795_000_000_000)
    ack(open_one, b"2\x011", again)
    open_one.durable().result(SOON)

    digest = digest_of("0:a.example", b"0\x011")
    what = (1, digest, again.queue, again.item, again.due)
    assert entries(tmp_path / "j") == [PutAgain(*what)]


def test_a_node_that_starts_beside_it_does_not_take_its_new_file_away(
    journal, tmp_path, monkeypatch
):
    # Given a node that looks for what was left open just before the file is locked
    real, looked = fcntl.flock, []

    def flock(file, operation):
        if not looked:
            looked.append(file)
            mend(tmp_path / "j")
        real(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    one = journal()
    push(one, 1)
    one.durable().result(SOON)

    assert looked
    assert entries(tmp_path / "j") == [a_push(1)]


def test_a_full_file_is_followed_by_another(journal, tmp_path):
    one = journal(max_bytes=500)
    for number in range(40):
        push(one, number)
        one.durable().result(SOON)
    one.close()

    paths = sorted((tmp_path / "j").iterdir())
    assert len(paths) > 3
    assert all(next(read(path)) == HEADER for path in paths)
    assert entries(tmp_path / "j") == [a_push(n) for n in range(40)]


def test_a_live_journal_is_left_alone(journal, tmp_path):
    one = journal()
    push(one, 1)
    one.durable().result(SOON)

    assert mend(tmp_path / "j") == []
    push(one, 2)
    one.close()
    assert entries(tmp_path / "j") == [a_push(1), a_push(2)]
    (path,) = (tmp_path / "j").iterdir()
    assert path.name.endswith("-node-1.journal")


def test_a_torn_journal_is_cut_back_by_the_next_node(journal, tmp_path):
    directory = tmp_path / "j"
    directory.mkdir()
    whole = frame(HEADER._replace(crawl_id="site-0")) + frame(a_push(1))
    (directory / "a.journal.open").write_bytes(whole + frame(a_push(2))[:-1])
    (directory / "same.journal.open").write_bytes(frame(HEADER) + frame(a_push(2)))
    (directory / "b.journal.open").write_bytes(b"\xffJ")
    (directory / "else.open").write_bytes(b"not ours")
    journal()

    assert (directory / "a.journal").read_bytes() == whole
    assert not (directory / "b.journal").exists()
    assert not (directory / "b.journal.open").exists()
    assert (directory / "else.open").read_bytes() == b"not ours"
    assert (directory / "same.journal").exists()


def test_a_cut_journal_and_its_new_name_are_on_disk(tmp_path, synced):
    whole = frame(HEADER._replace(crawl_id="site-0")) + frame(a_push(1))
    (tmp_path / "a.journal.open").write_bytes(whole + frame(a_push(2))[:-1])
    mend(tmp_path)

    assert synced == [
        ("a.journal.open", len(whole)),
        (tmp_path.name, ["a.journal"]),
    ]


async def test_pushes_are_noted_and_claims_are_not(journal, tmp_path):
    """Of that it notes the mark when it is done with it."""
    noting = journal()
    queued, marked, claimed = (
        Push(mode, seen_hash(mode.encode()), queue, 0, b"0\x011" if queue else b"")
        for mode, queue in ((FORCE, "0:a.example"), (TEST, ""), (CLAIM, ""))
    )
    noting.pushed(1, [queued, marked, claimed])
    await noting.before_ack()

    assert entries(tmp_path / "j") == [
        Pushed(1, FORCE, queued.mark, queued.queue, queued.item),
        Pushed(1, TEST, marked.mark, "", b""),
    ]


KILLED = """
import sys
from pathlib import Path
from frontier.urls.fingerprint import seen_hash
from frontier.node.journal.entries import Header
from frontier.node.journal.writer import Journal
from frontier.queue.push import Push

header = Header("frontier", "site-1", "site", "node-1", {}, "ab12" * 4)
journal = Journal(Path(sys.argv[1]), header)
number = 0
while True:
    item = b"0\\x01%d" % number
    journal.pushed(1, [Push("t", seen_hash(b"%d" % number), "0:a.example", 0, item)])
    number += 1
    if number % 50 == 0:
        journal.durable().result()
        print(number, flush=True)
"""


def test_kill_9_costs_nothing_that_was_durable(tmp_path):
    words = [sys.executable, "-c", KILLED, str(tmp_path)]
    process = warm.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)
    for _ in range(20):
        durable = int(process.stdout.readline())
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    ((path, _),) = mend(tmp_path)

    found = entries(tmp_path)
    assert path.exists()
    assert len(found) >= durable
    assert found == [a_push(n) for n in range(len(found))]


def test_a_full_disk_is_waited_for(journal, tmp_path, full_disk):
    one, (is_full, met) = journal(), full_disk
    is_full.set()
    push(one, 1)
    future = one.durable()
    assert met.wait(SOON)
    met.clear()
    assert met.wait(SOON)  # it has tried again
    assert not future.done()
    assert (one.room(), one.report()) == (False, {"disk_full": True})
    assert one.waits_for()
    is_full.clear()
    future.result(SOON)
    assert (one.room(), one.report()) == (True, {})
    one.close()
    assert entries(tmp_path / "j") == [a_push(1)]


def test_a_file_whose_header_cannot_be_written_is_not_used(
    journal, tmp_path, full_disk
):
    one = journal(max_bytes=1)  # so that the next entry begins a new file
    is_full, met = full_disk
    is_full.set()
    push(one, 1)
    future = one.durable()
    assert met.wait(SOON)
    is_full.clear()
    future.result(SOON)
    one.close()
    paths = sorted((tmp_path / "j").iterdir())
    assert [next(read(path)) for path in paths] == [HEADER] * len(paths)
    assert entries(tmp_path / "j") == [a_push(1)]


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="FRONTIER_JOURNAL_DIR"):
        Journal(tmp_path / "file" / "j", HEADER)


def test_a_journal_that_is_closed_meanwhile_hides_no_other(tmp_path, monkeypatch):
    for name in ("a", "b"):
        path = tmp_path / f"{name}.journal.open"
        path.write_bytes(frame(HEADER) + frame(a_push(1)))
    real = append_file.lock_left

    def closed_meanwhile(path):
        if path.name.startswith("a."):
            path.unlink()
        return real(path)

    monkeypatch.setattr(append_file, "lock_left", closed_meanwhile)

    assert [path.name for path, _ in mend(tmp_path)] == ["b.journal"]
