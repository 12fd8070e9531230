"""Bodies on their way from the wire to Scrapy and to the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontier.conf import Config
    from frontier.model import Body


class SpoolDirectory:
    """Makes the spools of one process."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def new(self) -> Spool:
        """A spool for one body."""
        return Spool()

    async def close(self) -> None:
        """Wait for what is being written."""


class Spool:
    """The body of one response."""

    def __init__(self) -> None:
        self._memory = bytearray()

    def attach(self, transport: Any) -> None:
        """Have *transport* be paused where the disk is slower than the wire."""

    def write(self, data: bytes) -> None:
        """Add *data*."""
        self._memory += data

    def truncate(self, _: int) -> None:
        """Keep everything: what Scrapy drops of a failed download is archived."""

    def whenever_written(self, then: Callable[[], None]) -> None:
        """Call *then* once everything is where it belongs."""
        then()

    def getvalue(self) -> bytes:
        """All of it, for Scrapy."""
        return bytes(self._memory)

    def take(self, body: bytes = b"") -> Body:
        """All of it, for the archive; *body* is what Scrapy has of it."""
        return body or bytes(self._memory)
