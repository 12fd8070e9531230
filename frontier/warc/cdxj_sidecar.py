"""An index beside each WARC file: CDXJ lines, written when the file is closed.

What always holds:

1.  A ``<name>.cdxj`` lists every response and revisit of its file, sorted; it gets
    its name after its last byte is on disk.
2.  It is there before its file gets its final name, so no kill leaves a closed file
    without one. Where it cannot be written, as on a full disk, the file stays open.

The lines are made as captures are written (`frontier.warc.file_rotation`). The file of
a killed node is read once, when it is repaired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontier.cdx.lines import Capture, captures_in, key_under, meta_line
from frontier.files import FILE_MODE, OPEN, open_input, published
from frontier.warc.reader import records_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from frontier.urls.canon.rulesets import RuleSet

SUFFIX = ".cdxj"


class Listing:
    """How indexes are written.

    Keys are made by *rules*, which the index then names; without *rules*, by pywb's.
    """

    def __init__(self, rules: RuleSet | None = None, *, mode: int = FILE_MODE) -> None:
        self._rules = rules
        self._mode = mode

    def line(self, capture: Capture) -> bytes:
        """The line of *capture*."""
        if self._rules is not None:
            url = capture.asked.filed(capture.url)
            capture = capture._replace(key=key_under(self._rules, url))
        return capture.encode()

    def write(self, path: Path, made: Iterable[bytes] | None = None) -> None:
        """Write the index of *path*, a whole file that may still be called ``.open``.

        *made* are its lines, if the caller has them.

        Raises:
            OSError: It cannot be written, or *path* not read.
            BadWarc: *path* was not written here, and is damaged, or has a record that
                no line can be made of.
        """
        final = path.with_name(path.name.removesuffix(OPEN))
        if made is None:
            made = self._read(path, final.name)
        lines = sorted(made)
        with published(beside_of(final), self._mode) as file:
            if self._rules is not None:
                file.write(meta_line(self._rules))
            file.writelines(lines)

    def _read(self, path: Path, name: str) -> Iterator[bytes]:
        with open_input(path) as file:
            for capture in captures_in(records_in(file, name), name):
                yield self.line(capture)


_PACKED = (".warc", ".warc.gz", ".warc.zst")


def beside_of(path: Path, of: Path | None = None) -> Path:
    """The path of the index of the WARC file *path*.

    If a directory has a file both packed and not, as ``x.warc`` and ``x.warc.gz``, each
    has an index with its whole name. If *path* is made from the file *of*, it is the
    directory of *of* that is looked at, since not all files may be made yet.
    """
    name = path.name.removesuffix(".gz").removesuffix(".zst").removesuffix(".warc")
    near = path if of is None else of
    others = (near.with_name(name + ending) for ending in _PACKED)
    if any(other.name != near.name and other.exists() for other in others):
        name = path.name
    return path.with_name(name + SUFFIX)
