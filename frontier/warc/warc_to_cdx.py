"""The captures in a WARC file, as the lines of an index."""

from __future__ import annotations

import json
import re
from typing import IO, TYPE_CHECKING

from frontier.cdx.lines import REVISIT
from frontier.cdx.methods import paired
from frontier.dedupe.digest import ALGORITHM, parse
from frontier.errors import BadWarc, SourceBroken
from frontier.files import require_ratio
from frontier.warc.reader import block_of, payload_digest, records_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from frontier.cdx.methods import Asked
    from frontier.warc.reader import Found

_KINDS = frozenset({"response", "revisit", "resource"})


def cdx_lines(
    file: IO[bytes],
    name: str,
    digest: str = "",
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[bytes]:
    """A CDXJ line for each response, revisit and resource record of *file*.

    With what an index of payload digests needs: url, mime (that of revisits),
    digest, and length, the compressed length of the record. The key is ``-``. What
    was not asked with GET has a method, too; its request is a neighbour.

    The digest of a record that has none is computed, by `ALGORITHM`. With *digest*,
    an algorithm, so is that of a record that has one of another. A revisit has no
    payload to compute it from, and one that was cut would have another.

    *progress* is called with the bytes that were read.

    Raises:
        ImportError: *digest* needs a package that is not installed.
        SourceBroken: The file is cut off, damaged, a bomb, or has no records.
    """
    found = None
    try:
        for found, how in paired(records_in(file, name, check=require_ratio)):
            progress(found.offset + found.length)
            if found.kind in _KINDS:
                yield _line(file, found, how, digest)
    except BadWarc as error:
        reason = f"{error.reason} at byte {error.offset:,}"
        raise SourceBroken(name, reason) from None
    except (OSError, ValueError) as error:
        raise SourceBroken(name, f"no readable WARC: {error}") from error
    if found is None:
        raise SourceBroken(name, "there is no WARC record in it")


def _line(file: IO[bytes], found: Found, how: Asked, digest: str) -> bytes:
    headers = found.headers
    facts: dict[str, str | int] = {"url": headers.get("warc-target-uri").strip("<>")}
    given = facts["digest"] = headers.get("warc-payload-digest")
    if found.kind == "revisit":
        facts["mime"] = REVISIT
    elif not _will_do(given, digest):
        facts["digest"] = _computed(file, found, digest or ALGORITHM) or given
    if how.method:
        facts["method"] = how.method
    facts["length"] = found.length
    return f"- {_digits(headers.get('warc-date'))} {json.dumps(facts)}\n".encode()


def _digits(date: str) -> str:
    """The digits of a WARC-Date, as precise as it is where an index can have it so.

    An index has 14, 17 or 20 of them; a revisit is to name the date as it is.
    """
    whole, _, fraction = date.rstrip("Z").partition(".")
    return re.sub(r"[-T:]", "", whole) + (fraction if len(fraction) in {3, 6} else "")


def _will_do(given: str, wanted: str) -> bool:
    """Whether the digest that a record has is taken."""
    if not wanted:
        return bool(given)
    try:
        return parse(given).algorithm == wanted
    except ValueError:
        return False


def _computed(file: IO[bytes], found: Found, algorithm: str) -> str:
    """The digest of the record's payload; empty if it is not known."""
    headers = found.headers
    if headers.get("warc-truncated"):
        return ""
    try:
        block = block_of(file, found)
        return payload_digest(block, algorithm, http=found.is_http)
    except ValueError:
        return ""
