"""Percent escapes as webarchive-commons and Google's Safe Browsing have them."""

from __future__ import annotations

import re

_RUN = re.compile("(?:%[0-9A-Fa-f]{2})+")
_NESTED = re.compile("%(?:25)+")
_TO_ESCAPE = re.compile(rb"%[0-9A-Fa-f]{2}|[\x00-\x20#%\x80-\xff]")
_ESCAPE_NEEDED = re.compile("[\x00-\x20#%\x80-\U0010ffff]")


def decode(text: str) -> str:
    """Every escape that is ASCII or UTF-8 undone, once; others stay as they are."""
    return _RUN.sub(_decoded_run, text) if "%" in text else text


def unescape_repeatedly(text: str) -> str:
    """`decode` until nothing changes."""
    if "%2525" in text:  # as many rounds as there are 25s: all of them at once
        text = _NESTED.sub("%", text)
    while "%" in text:
        decoded = decode(text)
        if decoded == text:
            break
        text = decoded
    return text


def escape_once(text: str) -> str:
    """White space, controls, ``#``, ``%`` and what is not ASCII, as UTF-8, escaped.

    An escape that is there, as it is not UTF-8, is not escaped again.
    """
    if not _ESCAPE_NEEDED.search(text):
        return text
    made = _TO_ESCAPE.sub(_escaped, text.encode("utf-8", "replace"))
    return made.decode("ascii")


def minimal_escape(text: str) -> str:
    """All escapes undone, and those that are needed made."""
    if "%" not in text and not _ESCAPE_NEEDED.search(text):
        return text
    return escape_once(unescape_repeatedly(text))


def _decoded_run(found: re.Match[str]) -> str:
    run = found[0]
    data = bytes.fromhex(run.replace("%", ""))
    if data.isascii():
        return data.decode("ascii")
    made: list[str] = []
    at = 0
    while at < len(data):
        try:
            made.append(data[at:].decode("utf-8"))
        except UnicodeDecodeError as error:
            bad, end = at + error.start, at + error.end
            made.append(data[at:bad].decode("utf-8"))
            made.append(run[3 * bad : 3 * end])
            at = end
        else:
            break
    return "".join(made)


def _escaped(found: re.Match[bytes]) -> bytes:
    text = found[0]
    return text.upper() if len(text) > 1 else b"%%%02X" % text[0]
