"""The process that copies, as the one that starts it sees it; see `copying`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import isal

import frontier
from frontier.errors import BadWacz
from frontier.wacz.copying import Copied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

_PLACES = [str(Path(str(each.__file__)).parents[1]) for each in (frontier, isal)]
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
        self._expected = len(jobs)
        self._made: list[Copied] = []
        self._error: BaseException | None = None
        # No site packages but those: it begins in half the time.
        command = [sys.executable, "-I", "-S", "-c", _CODE.format(_PLACES)]
        self._process = subprocess.Popen(  # noqa: S603 (our own interpreter, no shell)
            [*command, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[descriptor],
        )
        told = [(os.fspath(path.absolute()), at, size) for path, at, size in jobs]
        self._thread = threading.Thread(
            target=self._listen, args=(told,), name="frontier-wacz-copyist"
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._thread.join()
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
        if len(self._made) < self._expected:
            code = self._process.wait()
            raise BadWacz(self._name, f"the process that copies has ended with {code}")
        return self._made

    def _listen(self, jobs: list[tuple[str, int, int]]) -> None:
        try:
            to, answers = self._process.stdin, self._process.stdout
            if to is None or answers is None:
                return
            to.write(json.dumps(jobs).encode() + b"\n")
            to.flush()
            while len(self._made) < self._expected and (line := answers.readline()):
                self._take(json.loads(line))
        except BrokenPipeError:
            pass  # it has ended; `wait` tells
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def _take(self, said: int | list[object] | dict[str, object]) -> None:
        if isinstance(said, int):
            self._progress(said)
        elif isinstance(said, list):
            self._made.append(Copied(*said))  # type: ignore[arg-type]
        else:
            number, text, path = said["errno"], said["text"], said["path"]
            error = OSError(number, text, path) if path else OSError(number, text)
            self._error = error
