"""Tells which crawl a file is from, where several had the same name.

A crawl is born with a random mark (`frontier.store.keys`). A crawl log begins with a
line about it; a WARC file has it in its warcinfo record, as `FIELD`. A file without a
mark, such as other tools write, may be from any crawl.
"""

from __future__ import annotations

import gzip
import re
import zlib
from typing import IO

from frontier.errors import BadWarc
from frontier.warc.reader import records_in

FIELD = "crawl-born"
URL = "frontier:born"
"""Stands where other lines of a crawl log have the URL that they are about."""
NOTE = "born:"
"""What the annotation of that line begins with."""
_LINE = 1 << 12
"""Most bytes of a first line that are looked at."""
_MARK = "[0-9A-Za-z]{1,64}"
_IN_LOG = re.compile(rf" {URL} .* {NOTE}({_MARK})$".encode())
_IN_WARC = re.compile(rf"^{FIELD}: ({_MARK})\r?$".encode(), re.MULTILINE)


def birth_of(file: IO[bytes], name: str) -> str:
    """The mark in *file*, a crawl log or WARC file called *name*; empty if it has none.

    Raises:
        OSError: It cannot be read.
    """
    try:
        if ".crawl.log" in name:
            text = gzip.GzipFile(fileobj=file) if name.endswith(".gz") else file
            found = _IN_LOG.search(text.read(_LINE).partition(b"\n")[0])
        else:
            first = next(records_in(file, name), None)
            found = _IN_WARC.search(first.block) if first is not None else None
    except (BadWarc, EOFError, ValueError, zlib.error):
        return ""  # whoever reads the file reports what is wrong with it
    return found[1].decode() if found else ""
