"""XML as servers send it, before a parser has it: in which encoding, and its dates.

The encoding is found here, so that none hides anything from what is done to the text.
"""

from __future__ import annotations

import codecs
import re
from datetime import UTC, datetime

LONGEST_DATE = 100
TEXT_ENCODINGS = re.compile(
    r"utf-?(?:8|16|32)(?:-[bl]e|-sig)?|ascii|iso8859-\d\d?|cp\d{3,4}|koi8-[rut]|big5\w*"
    r"|gbk|gb18030|euc_\w{2}|shift_jis\w*|tis-620|hz|iso2022_\w+|johab|mac-\w+"
)
"""Names of Python's codecs that are used: of the others one takes quadratic time
(punycode), and some are no character sets (``unicode_escape``)."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins as the one of UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE = (
    (b"<\0\0\0", "utf-32-le"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0", "utf-16-le"),
    (b"\0<", "utf-16-be"),
)
"""How a document without a mark begins in them (XML 1.0, appendix F)."""
_EBCDIC = b"\x4c\x6f\xa7\x94"
"""``<?xm`` in the IBM code pages, which have letters at the same places."""
_CHARSET = re.compile(r"charset=[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)
_DECLARED = re.compile(
    rb"<\?xml[^>]{1,200}?encoding[ \t\r\n]{0,9}=[ \t\r\n]{0,9}[\"']([\w.:-]{1,40})"
)


def iso_date(text: str) -> datetime:
    """A date of ISO 8601, as of XML Schema or W3C's note, in UTC; without a zone it is.

    Raises:
        OverflowError: It is outside of the years 1 to 9999.
        ValueError: It is none.
    """
    date = datetime.fromisoformat(text[:LONGEST_DATE].strip())
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return date.replace(microsecond=0).astimezone(UTC)


def decoded(body: bytes, content_type: str | None = None) -> tuple[str, str]:
    """*body* as text, and what is wrong with that; empty if nothing is.

    The encoding is that of the byte order mark, of *content_type*, the declared one or
    UTF-8, in this order (RFC 7303, 3). If none fits, what does not fit is replaced.
    """
    for mark, encoding in _BOMS:
        if body.startswith(mark):
            return _fitting(body[len(mark) :], [encoding])
    for begin, encoding in _WIDE:
        if body.startswith(begin):
            return _fitting(body, [encoding])
    sent = _CHARSET.search((content_type or "")[:1000])
    head = body[:300].lstrip()
    if head.startswith(_EBCDIC):
        head = head.decode("cp037").encode("ascii", "replace")
    written = _DECLARED.match(head)
    names = [sent[1]] if sent else []
    names += [written[1].decode("ascii")] if written else []
    return _fitting(body, [*names, "utf-8"])


def _fitting(body: bytes, names: list[str]) -> tuple[str, str]:
    for name in names:
        try:
            known = codecs.lookup(name).name
            if TEXT_ENCODINGS.fullmatch(known):
                return body.decode("gb18030" if known == "gb2312" else known), ""
        except (LookupError, UnicodeError, ValueError):
            continue
    last = names[-1] if names != ["utf-8"] else "cp1252"
    return body.decode(last, "replace"), f"not all of it is text in {names[0]}"
