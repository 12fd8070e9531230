"""The directory a command works in: one command at a time, cleaned up after a kill.

What always holds:

1.  It is held by a locked file, as are files being written: the lock ends with the
    process, however that ends.
2.  What a killed command has left is removed by the next one that works there, once it
    holds the directory. What a living one has is not touched.

Commands on manifests work where these are. What `frontier warc remove` takes out of
WACZ files is put beside the files that are given: there is their room, and the next
run finds it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frontier.errors import DirectoryInUse, FileInUse
from frontier.files import make_directory, mode_of_environment, rewriting

BESIDE = ".frontier-remove"
"""The name of a directory beside files that captures are removed from."""


@contextmanager
def held(directory: Path, name: str = ".lock") -> Iterator[None]:
    """Hold *directory*, which has manifests; it is made if it is not there.

    Raises:
        DirectoryInUse: Another process holds it.
        OSError: It cannot be made, or cannot be written to.
    """
    mode = mode_of_environment()
    make_directory(directory, mode)
    try:
        with rewriting(directory / name, mode):
            for left in directory.glob("duckdb*"):  # what DuckDB sorted on disk
                shutil.rmtree(left)
            yield
    except FileInUse:
        raise DirectoryInUse(str(directory)) from None


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """An empty directory beside *path* that only its owner may read; removed at exit.

    Raises:
        DirectoryInUse: Another process works there.
        OSError: It cannot be made.
    """
    directory = path.absolute().parent / BESIDE
    with held(directory.parent, BESIDE):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(0o700)
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
