"""The text of a page as a digest: what a reader sees, without clocks and dates.

Many pages have different bytes at each visit but say the same: what differs is the time
in a corner, a token in a form, the address of a script. The digest is of the words
between the tags, without times, dates, ages (``5 minutes ago``) and seconds since 1970.
Any other number is text: a price that changes is a change.

What always holds:

1.  It takes time linear in the size of the page, whatever is in it: no byte is looked
    at more than a few times, and each regular expression here has bounded repeats.
2.  At most `MOST_BYTES` of a page are looked at; if it is cut, its length counts.
3.  It is for comparison alone: text of another encoding has another digest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

MOST_BYTES = 4_000_000
"""How much of a page is looked at."""
HTML = frozenset({"text/html", "application/xhtml+xml"})
"""Media types of pages that have such a text."""

_UNSEEN = frozenset((b"script", b"style", b"template", b"noscript"))
"""Elements whose content nobody reads."""
_NAME = re.compile(rb"[a-z]{1,12}")
_MONTH = rb"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DAY = rb"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? )?"
_CLOCKS = re.compile(
    rb"\b(?:"
    rb"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)?"  # ISO 8601
    rb"|\d{1,2}[./]\d{1,2}[./]\d{2,4}"
    rb"|" + _DAY + _MONTH + rb" \d{1,2}(?:,? \d{4})?"
    rb"|" + _DAY + rb"\d{1,2}\.? " + _MONTH + rb"(?: \d{4})?"
    rb"|\d{1,2}:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: ?(?:[ap]m\b|[ap]\.m\.))?"
    rb"|\d{1,4} ?(?:second|minute|hour|day|week|month|year)s? ago"
    rb"|1\d{9}(?:\d{3})?"  # seconds or milliseconds since 1970
    rb")(?: ?(?:z|utc|gmt|c?e[sd]?t|[mp][sd]t)\b| ?[+-]\d\d:?\d\d\b)?"
)


def text_digest(page: bytes) -> bytes:
    """The digest of the text of *page*, which is HTML."""
    cut = page[:MOST_BYTES]
    words = b" ".join(b" ".join(_texts(cut.lower())).split())
    digest = hashlib.blake2b(_CLOCKS.sub(b"", words), digest_size=16)
    if len(cut) < len(page):
        digest.update(b"%d" % len(page))
    return digest.digest()


def _texts(page: bytes) -> Iterator[bytes]:
    """The text between the tags of *page*, which is in lower case.

    A tag, a comment or a script that does not end takes all the rest with it, as in a
    browser: so no end is searched for in vain more than once.
    """
    at = 0
    while (tag := page.find(b"<", at)) >= 0:
        yield page[at:tag]
        at = _end_of(page, tag)
        if at < 0:
            return
    yield page[at:]


def _end_of(page: bytes, tag: int) -> int:
    """The end of what begins with the ``<`` at *tag*; -1 if it does not end."""
    if page.startswith(b"<!--", tag):
        end = page.find(b"-->", tag + 4)
        return end + 3 if end >= 0 else -1
    begin = page[tag + 1 : tag + 2]
    if not (begin.isalpha() or begin in b"/!?"):
        return tag + 1  # as in "a < b"
    end = page.find(b">", tag + 1)
    if end < 0:
        return -1
    name = _NAME.match(page, tag + 1)
    if name is None or name[0] not in _UNSEEN or page[end - 1 : end] == b"/":
        return end + 1
    return page.find(b"</" + name[0], end + 1)
