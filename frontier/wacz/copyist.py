"""The process that copies, as the one that starts it sees it; see `copying`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import isal

from frontier.errors import BadWacz
from frontier.wacz.copying import Copied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

_PLACES = [str(Path(__file__).parents[2]), str(Path(isal.__file__).parents[1])]
_CODE = "import sys; sys.path[:0] = {!r}; import frontier.wacz.copying as c; c.main()"


class Copyist:
    """Has files copied into another while something else is done.

    It ends with its `with` block, done or not; if this process is killed, then too.
    """

    def __init__(
        self,
        descriptor: int,
        name: str,
        jobs: Sequence[tuple[Path, int, int]],
        progress: Callable[[int], object],
    ) -> None:
        """Begin to copy: of each path so many bytes to that place of *descriptor*.

        *progress* is told in another thread how many bytes were copied. *name* is for
        errors.

        Raises:
            OSError: There can be no further process.
        """
        self._name = name
        self._progress = progress
        self._done = False
        self._made: list[Copied] = []
        self._error: BaseException | None = None
        # No site packages but those: it begins in half the time.
        command = [sys.executable, "-I", "-S", "-c", _CODE.format(_PLACES)]
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter, no shell)
            [*command, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[descriptor],
            process_group=0,  # Ctrl-C is for this one, which ends the other
        )
        self._thread = threading.Thread(
            target=self._listen, args=(list(jobs),), name="frontier-wacz-copyist"
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._thread.join()
        with contextlib.suppress(BrokenPipeError):
            self._process.__exit__(None, None, None)

    def check(self) -> None:
        """Raise what has gone wrong, if something has."""
        if self._error is not None:
            raise self._error

    def wait(self) -> list[Copied]:
        """What was copied of each file, when all are.

        Raises:
            OSError: One cannot be read, or the other not written.
            BadWacz: The process was ended by somebody else.
        """
        self._thread.join()
        self.check()
        if not self._done:
            code = self._process.wait()
            raise BadWacz(self._name, f"the process that copies has ended with {code}")
        return self._made

    def _listen(self, jobs: list[tuple[Path, int, int]]) -> None:
        told = b"".join(
            b"%d\0%d\0%b\0" % (at, size, os.fsencode(path.absolute()))
            for path, at, size in jobs
        )
        try:
            to, answers = self._process.stdin, self._process.stdout
            if to is None or answers is None:
                return
            to.write(b"%d\n%b" % (len(told), told))
            to.flush()
            for line in answers:
                if line == b"d\n":
                    self._done = True
                    break
                self._take(line.split(), jobs)
        except BrokenPipeError:
            pass  # it has ended; `wait` tells
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def _take(self, said: list[bytes], jobs: list[tuple[Path, int, int]]) -> None:
        kind, *words = said
        if kind == b"n":
            self._progress(int(words[0]))
        elif kind == b"f":
            path, _, size = jobs[len(self._made)]
            copied, crc_read, crc = map(int, words[:3])
            made = Copied(copied, crc_read, crc, words[3].decode())
            if made.size != size:
                raise BadWacz(str(path), "its size changes while it is copied")
            self._made.append(made)
        else:
            number, job = map(int, words)
            about = str(jobs[job][0]) if job >= 0 else self._name
            raise OSError(number, os.strerror(number), about)
