"""Host names by IDNA 2003, and ports, as Java's libraries have them."""

from __future__ import annotations

import re
from stringprep import in_table_a1

from frontier.errors import InvalidURL

MAX_LABEL = 63
NO_PORT = -1
_NUMBER = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_LARGEST_INT = 2**31 - 1
_DOTS = re.compile("[.\u3002\uff0e\uff61]")
_LDH = re.compile(r"[A-Za-z0-9-]+")
_ACCEPTABLE = re.compile(r"(?:[a-zA-Z0-9_-]++\.?)++")
_PLAIN = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)


def to_ascii(url: str, host: str) -> str:
    """*host* in lower case and, label by label, in ASCII; Heritrix's rule.

    Names that IDNA forbids are let through if they have only letters, digits, hyphens
    and underscores, with single dots between.

    Raises:
        InvalidURL: *host*, of *url*, is neither allowed nor let through.
    """
    if host.isascii() and _PLAIN.fullmatch(low := host.lower()):
        return low
    try:
        return ".".join(map(_label, _DOTS.split(host))).lower()
    except UnicodeError as error:
        # Possessive, as Java has it: else a long label takes exponential time.
        if _ACCEPTABLE.fullmatch(host):
            return host.lower()
        raise InvalidURL(url, f"its host is invalid: {error}") from None


def lenient_ascii(host: str) -> str:
    """*host* in ASCII if IDNA allows it, else as it is; webarchive-commons' rule.

    IDNA is as in Java: no label may be empty, or longer than 63 characters.
    """
    if host.isascii():
        return host
    labels = _DOTS.split(host)
    last = labels.pop() if not labels[-1] else None  # a dot at the end may stay
    try:
        made = [label if label.isascii() else _assigned(label) for label in labels]
    except UnicodeError:
        return host
    if any(not 0 < len(label) <= MAX_LABEL for label in made):
        return host
    return ".".join(made if last is None else [*made, last])


def port_number(url: str, text: str) -> int:
    """The port in *text*, by ``Integer.parseInt``; `NO_PORT` means none.

    Raises:
        InvalidURL: *url* has a port that is not a number.
    """
    if not _NUMBER.fullmatch(text) or abs(int(text)) > _LARGEST_INT:
        raise InvalidURL(url, "its port is not a number")
    return int(text)


def _label(label: str) -> str:
    """ToASCII with the rules of STD 3.

    Raises:
        UnicodeError: The label breaks them.
    """
    made = label if label.isascii() else _encoded(label)
    if not _LDH.fullmatch(made) or made[0] == "-" or made[-1] == "-":
        raise UnicodeError(f"{label!r} is not a label of a name")
    if len(made) > MAX_LABEL:
        raise UnicodeError(f"{label[:20]!r}... is longer than {MAX_LABEL} characters")
    return made


def _assigned(label: str) -> str:
    """ToASCII, for characters that Unicode 3.2 has.

    Raises:
        UnicodeError: The label has others, or forbidden ones.
    """
    if any(map(in_table_a1, label)):
        raise UnicodeError(f"{label!r} has characters that IDNA does not know")
    return _encoded(label)


def _encoded(label: str) -> str:
    return label.encode("idna").decode("ascii") if label else ""
