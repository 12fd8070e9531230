"""The URL Standard of the WHATWG, which browsers follow, through ada."""

from __future__ import annotations

import ada_url

from frontier.errors import InvalidURL


def standard(url: str) -> str:
    """*url* as browsers serialize it.

    Raises:
        InvalidURL: It is none by the standard.
    """
    try:
        return str(ada_url.normalize_url(url))
    except (ValueError, UnicodeError):
        raise InvalidURL(url, "it is not a URL by the WHATWG's standard") from None
