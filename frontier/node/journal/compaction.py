"""Closed journals of a crawl, made into one that has only what a rebuild needs.

A crawl that runs for months pushes and acks the same pages again and again. A rebuild
needs to know what is still queued, and of the rest only that it was done. What always
holds:

1.  A rebuild of the compacted journal and of those that are left restores what one of
    all journals would have restored. Acks that fit no push here are kept: the push may
    be in another directory.
2.  The compacted journal names those that it replaces. From the moment that it has its
    name these count no more, so a kill at any point loses nothing and doubles nothing;
    whoever compacts next deletes them.
3.  Only closed journals are compacted, `AGE_S` after they were written: until then a
    node may have to compare them with the store (see `restoring`).
4.  A journal that is damaged stays as it is, for a rebuild to name.
5.  One process at a time compacts in a directory, and none while a crawl is rebuilt.

It is run by nodes in a process of its own, whose memory does not stay with the node:
``python -m frontier.node.journal.compaction DIR NAMESPACE CRAWL BYTES SECONDS MODE``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from frontier.errors import CodecError
from frontier.files import FILE_MODE, creating, sync_directory
from frontier.node.journal.entries import (
    MOST_MARKS,
    SUFFIX,
    Acked,
    Bad,
    Done,
    Pushed,
    PutAgain,
    Replaces,
    digest_of,
    frame,
    read,
    read_header,
    replaced_by,
)
from frontier.queue.item import decode
from frontier.queue.push import FORCE, TEST
from frontier.urls.addresses import SAID, class_of_host
from frontier.urls.fingerprint import LEAST_MARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

T = TypeVar("T")

AGE_S = 7200.0
"""Seconds: longer than the store keeps the numbers of pushes of a silent process."""
PART_BYTES = 16 * 1024 * 1024
"""Of journals, that are compared at once, as far as the partitions allow."""
MOST_PARTS = 128
COMPACTING = ".compacting"
"""Suffix of what is not whole; the name of the lock alone."""
NAMES_AT_ONCE = 1_000
START = b"is_start_request"
"""In the item of a seed: Scrapy's key of its ``meta``."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did."""

    path: Path
    files: int
    """That it replaces."""
    before: int
    """Their bytes."""
    after: int


@contextlib.contextmanager
def only_one(directory: Path, *, wait: bool) -> Iterator[bool]:
    """Be the one that compacts in *directory*, or keeps others from it.

    Gives whether this is so, which it is if it may *wait*.

    Raises:
        OSError: The directory cannot be written.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(directory / COMPACTING, flags, FILE_MODE)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(lock)


def is_due(
    directory: Path, crawl: tuple[str, str], min_bytes: int, age_s: float
) -> bool:
    """Whether there are *min_bytes* to be compacted, and as many as there were before.

    With 0 whether there is anything.

    Raises:
        OSError: The directory cannot be read.
    """
    new, old = _closed(directory, crawl, age_s)
    size = sum(path.stat().st_size for path in new)
    if not (new and min_bytes):
        return bool(new)
    return size >= max(min_bytes, sum(path.stat().st_size for path in old))


def _closed(
    directory: Path, crawl: tuple[str, str], age_s: float
) -> tuple[list[Path], list[Path]]:
    """The closed journals of *crawl* that are old enough, and the compacted ones."""
    gone = replaced_by([directory])
    since = time.time() - age_s
    new, old = [], []
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):
            header = read_header(path)
            if path.name in gone or header is None or header.crawl != crawl:
                continue
            if header.compacted:
                old.append(path)
            elif path.stat().st_mtime <= since:
                new.append(path)
    return new, old


def compact(
    directory: Path,
    crawl: tuple[str, str],
    *,
    min_bytes: int,
    age_s: float = AGE_S,
    mode: int = FILE_MODE,
) -> Compacted | None:
    """Compact the closed journals of *crawl*, its namespace and name, if it is time.

    See `is_due`; *age_s* is in seconds. ``None``: it is not, or another one does it.

    Raises:
        OSError: A file cannot be read or written.
    """
    with only_one(directory, wait=False) as alone:
        if not alone:
            return None
        _clear(directory)
        if not is_due(directory, crawl, min_bytes, age_s):
            return None
        new, old = _closed(directory, crawl, age_s)
        paths = _alike([*old, *new])
        if not set(paths) & set(new):
            return None
        return _Compaction(directory, paths, mode).run()


def _clear(directory: Path) -> None:
    """Delete what an earlier compaction has left that was killed."""
    for name in replaced_by([directory]):
        (directory / name).unlink(missing_ok=True)
    for path in directory.glob(f"*{SUFFIX}{COMPACTING}"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def _alike(paths: Sequence[Path]) -> list[Path]:
    """Those of *paths* that are whole, and of the same settings as the first one."""
    found: list[Path] = []
    shape = None
    for path in paths:
        header = read_header(path)
        if header is None or any(isinstance(entry, Bad) for entry in read(path)):
            continue
        shape = shape or (header.shape, header.spider)
        if shape == (header.shape, header.spider):
            found.append(path)
    return found


class _Compaction:
    """Makes one journal of *paths*."""

    def __init__(self, directory: Path, paths: Sequence[Path], mode: int) -> None:
        self._directory = directory
        self._paths = paths
        self._mode = mode
        self._before = sum(path.stat().st_size for path in paths)
        self._spelled: set[str] = set()

    def run(self) -> Compacted:
        first = read_header(self._paths[0])
        if first is None:
            raise FileNotFoundError(self._paths[0])
        header = first._replace(
            node_id=f"compacted-{secrets.token_hex(4)}", process="", compacted=True
        )
        moment = datetime.now(UTC)
        stamp = f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03}"
        name = re.sub(r"[^A-Za-z0-9._-]", "_", first.crawl_id)[:100]
        final = self._directory / f"{name}-{stamp}-00000-{header.node_id}{SUFFIX}"
        made = final.with_name(final.name + COMPACTING)
        parts = final.with_name(f"{final.stem}-parts{SUFFIX}{COMPACTING}")
        parts.mkdir(0o700)
        files = self._divided(parts)
        with open(made, "xb", opener=creating(self._mode)) as out:
            out.write(frame(header))
            names = [path.name for path in self._paths]
            out.writelines(
                frame(Replaces(names[at : at + NAMES_AT_ONCE]))
                for at in range(0, len(names), NAMES_AT_ONCE)
            )
            for path in files:
                self._write(path, out)
            out.flush()
            os.fsync(out.fileno())
        written = max(path.stat().st_mtime for path in self._paths)
        os.utime(made, (written, written))
        made.rename(final)
        sync_directory(self._directory)
        for path in self._paths:
            path.unlink(missing_ok=True)
        sync_directory(self._directory)
        shutil.rmtree(parts, ignore_errors=True)
        return Compacted(final, len(self._paths), self._before, final.stat().st_size)

    def _divided(self, parts: Path) -> list[Path]:
        """The entries, by partition, in files of their own, each in their order."""
        count = min(MOST_PARTS, 1 + self._before // PART_BYTES)
        paths = [parts / f"{number}{SUFFIX}" for number in range(count)]
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(path.open("xb")) for path in paths]
            for path in self._paths:
                for entry in read(path):
                    if isinstance(entry, Pushed | Acked | PutAgain | Done):
                        files[entry.partition % count].write(frame(entry))
        return paths

    def _write(self, part: Path, out: BinaryIO) -> None:
        """Write to *out* what a rebuild needs of *part*, in the order of a rebuild."""
        known = _survey(part)
        acks, done, more = known.acks, known.done, known.more
        forced: Counter[bytes] = Counter()
        for push in _pushes(part):
            digest = digest_of(push.queue, push.item)
            if not acks[digest] or (push.mode == TEST and push.mark in done):
                continue
            acks[digest] -= 1
            if push.mode == FORCE or push.mark in done:
                more[push.partition] += 1
            else:
                done[push.mark] = push.partition
            forced[digest] += push.mode != TEST
        kept: set[tuple[int, bytes]] = set()
        for entry in read(part):
            if isinstance(entry, Pushed):
                digest = digest_of(entry.queue, entry.item)
                if forced[digest] and entry.mode != TEST:
                    forced[digest] -= 1
                elif entry.mode != TEST or self._is_needed(entry, digest, done, kept):
                    out.write(frame(entry._replace(number=0)))
            elif isinstance(entry, PutAgain):
                digest = digest_of(entry.queue, entry.item)
                if digest == entry.digest:
                    continue
                if acks[digest] > 0:
                    acks[digest] -= 1
                    more[entry.partition] += 1
                else:
                    out.write(frame(_waiting(entry, known.dues[digest])))
        _write_repeated(known, out)
        for digest, count in acks.items():
            out.write(frame(Acked(known.homes[digest], digest)) * count)
        _write_done(done, more, out)

    def _is_needed(
        self,
        entry: Pushed,
        digest: bytes,
        done: dict[int, int],
        kept: set[tuple[int, bytes]],
    ) -> bool:
        """Whether *entry*, pushed if it was new, says what nothing else does."""
        if entry.mark in done:
            return self._says_an_address(entry)
        if (entry.mark, digest) in kept:
            return False
        kept.add((entry.mark, digest))
        return True

    def _says_an_address(self, entry: Pushed) -> bool:
        """Whether it is the first seed here that spells an address of its class."""
        if not entry.queue or START not in entry.item:
            return False
        with contextlib.suppress(CodecError, ValueError):
            host = urlsplit(decode(entry.item, entry.queue)["url"]).hostname or ""
            kind = class_of_host(host)
            if kind in SAID and kind not in self._spelled:
                self._spelled.add(kind)
                return True
        return False


def _pushes(part: Path) -> Iterator[Pushed]:
    for entry in read(part):
        if isinstance(entry, Pushed) and entry.queue:
            yield entry


@dataclass(slots=True)
class _Known:
    """What the entries of a part say, wherever they stand."""

    acks: Counter[bytes]
    homes: dict[bytes, int]
    """The partitions of these."""
    dues: dict[bytes, int]
    """The last time for which each was put back."""
    done: dict[int, int]
    """Hash of a URL to its partition."""
    more: Counter[int]
    """Requests that are done beside these, by partition."""
    repeated: dict[bytes, tuple[PutAgain, int]]
    """Requests that were put back as they were, and how often."""


def _survey(part: Path) -> _Known:
    known = _Known(Counter(), {}, {}, {}, Counter(), {})
    for entry in read(part):
        if isinstance(entry, Acked | PutAgain):
            known.acks[entry.digest] += 1
            known.homes[entry.digest] = entry.partition
        if isinstance(entry, PutAgain):
            digest = digest_of(entry.queue, entry.item)
            known.dues[digest] = max(known.dues.get(digest, 0), entry.due)
            if digest == entry.digest:
                _, times = known.repeated.get(digest, (entry, 0))
                known.repeated[digest] = entry, times + 1
        if isinstance(entry, Done):
            known.done |= dict.fromkeys(entry.marks, entry.partition)
            known.more[entry.partition] += entry.more
    return known


def _waiting(entry: PutAgain, due: int) -> Pushed:
    """What *entry* has put back, for the time *due*."""
    what = (entry.partition, FORCE, LEAST_MARK, entry.queue)
    return Pushed(*what, entry.item, due=due)


def _write_repeated(known: _Known, out: BinaryIO) -> None:
    """Write what is left of requests that were put back as they were.

    Each time ends the one before. If nothing here says how the first one was queued,
    the entry stays, to end what another journal has.
    """
    for digest, (entry, times) in known.repeated.items():
        due, acks = known.dues[digest], known.acks
        if acks[digest] >= times:
            acks[digest] -= times
            known.more[entry.partition] += times - 1
            out.write(frame(entry._replace(due=due)))
        else:
            known.more[entry.partition] += acks[digest]
            out.write(frame(_waiting(entry, due)) * (times - acks[digest]))
            acks[digest] = 0


def _write_done(done: dict[int, int], more: Counter[int], out: BinaryIO) -> None:
    by_partition: dict[int, list[int]] = {partition: [] for partition in more}
    for mark, partition in done.items():
        by_partition.setdefault(partition, []).append(mark)
    for partition, marks in by_partition.items():
        out.write(frame(Done(partition, (), more[partition])))
        out.writelines(
            frame(Done(partition, tuple(some))) for some in batched(marks, MOST_MARKS)
        )


def batched(every: list[T], most: int) -> Iterator[list[T]]:
    """*every*, some at a time."""
    for at in range(0, len(every), most):
        yield every[at : at + most]


def main() -> None:
    """Compact as the arguments say, and print what was done."""
    directory, namespace, crawl_id, min_bytes, age_s, mode = sys.argv[1:]
    os.nice(10)
    done = compact(
        Path(directory),
        (namespace, crawl_id),
        min_bytes=int(min_bytes),
        age_s=float(age_s),
        mode=int(mode),
    )
    if done is not None:
        print(f"{done.files} {done.before} {done.after}")


if __name__ == "__main__":
    main()
