"""What a node and its watchdog share: whole records, or none."""

import math
import mmap
import os
import subprocess
import sys

import pytest

from frontier.watchdog.memory import (
    EMPTY,
    RUNNING,
    SIZE,
    Memory,
    Running,
    packed as record_of,
)
from tests.harness.cases import each

ONE = Running(3, 1_700_000_000_000, 7, "http://example.org/é")


@pytest.fixture
def memory():
    made = Memory.make()
    yield made
    made.close()


def test_running_record_survives_a_kill_of_its_process(memory):
    script = (
        "import os, signal, sys\n"
        "from frontier.watchdog.memory import Memory, Running, packed\n"
        f"Memory(int(sys.argv[1])).run(packed(Running(*{tuple(ONE)!r})))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(memory.file)]
    subprocess.run(command, pass_fds=[memory.file], check=False)

    assert memory.running == ONE


def test_running_record_is_empty_at_the_start_and_after_a_run(memory):
    assert memory.running.partition == -1
    memory.run(record_of(ONE))
    memory.run(EMPTY)
    assert memory.running.partition == -1


def test_a_shorter_record_leaves_nothing_of_a_longer_one(memory):
    memory.run(record_of(ONE._replace(url="http://example.org/" + "x" * 900)))
    memory.run(record_of(ONE))
    assert memory.running == ONE


def test_a_url_is_cut(memory):
    memory.run(record_of(ONE._replace(url="é" * 5000)))
    assert memory.running.url.startswith("é" * 499)
    assert len(memory.running.url) <= 1000


@each("bytes_written", range(1, len(record_of(ONE))))
def test_partly_written_record_is_never_read(memory, bytes_written):
    before = record_of(ONE._replace(id=1_000_000, url="http://another.example/page"))
    memory.run(before)
    memory.run(record_of(ONE)[:bytes_written])

    assert memory.running in {
        None,
        ONE._replace(id=1_000_000, url=before[28:].decode()),
    }


def test_the_last_beat_that_was_answered_is_what_was_written(memory):
    assert memory.stood_in == -math.inf
    memory.stand_in(12.5)
    assert memory.stood_in == 12.5


def test_garbage_is_read_as_nothing(memory):
    other = mmap.mmap(memory.file, SIZE)
    other[RUNNING:SIZE] = os.urandom(SIZE - RUNNING)

    assert memory.running is None
    assert memory.said is None
    assert memory.stood_in == -math.inf
