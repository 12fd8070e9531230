"""Originals that are behind a CDX server, for revisits that become responses again.

What always holds:

1.  A server only says which capture it may be, and its replay gives the payload; that
    is used if it has the digest that the revisit states, whatever it is called.
2.  No fault of a server is taken for an answer: the revisit stays, and is named with
    the reason. A server that fails again and again is left alone for a while
    (`frontier.dedupe.cdx_server`), and told as such.

A replay gives no chunks. A revisit whose head has ``Transfer-Encoding`` stays: behind
it another body would be what no server sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from frontier.cdx.lines import REVISIT, sort_key
from frontier.dedupe.cdx_server import CdxServer, NoAnswer, Wanted
from frontier.dedupe.digest import parse
from frontier.postcrawl.manifest import microseconds
from frontier.postcrawl.payload import hashing, parsed
from frontier.postcrawl.selection import digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontier.dedupe.cdx_server import Answer
    from frontier.warc.reader import Found

TIMEOUT = 30.0
"""Seconds without any bytes."""
MEANWHILE = "revisits stay what they are"
CANDIDATES = 4
"""Captures whose payload is fetched for one revisit, at most."""
_CODED = re.compile(rb"^transfer-encoding[ \t]*:", re.IGNORECASE | re.MULTILINE)
_PART = 1 << 18


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they are, as the command was told; a process makes its own connections."""

    addresses: tuple[str, ...] = ()
    """Of CDX servers."""
    replay: str = ""
    """See `frontier.dedupe.cdx_server.CdxServer.replay`."""


class RemoteOriginals:
    """What the replay of *servers* gives."""

    def __init__(self, servers: Servers, timeout: float = TIMEOUT) -> None:
        self._servers = [
            CdxServer(each, timeout, MEANWHILE) for each in servers.addresses
        ]
        self._replay = servers.replay

    def write(self, found: Found, why: str, out: IO[bytes]) -> None:
        """Write the payload of the revisit *found* to *out*; *why* no file has it.

        Raises:
            ValueError: No server has it, with the reasons.
        """
        if not self._servers:
            raise ValueError(why)
        if _CODED.search(found.block.partition(b"\r\n\r\n")[0]):
            raise ValueError(f"{why}; a replay has no chunks, as its head says")
        reasons = [why]
        for server in self._servers:
            if server.is_resting():
                reasons.append(f"{server.name} has failed, and is left alone")
                continue
            try:
                if self._written(server, found, out):
                    return
                reasons.append(f"{server.name} has no capture with its payload")
            except NoAnswer as error:
                server.failed(str(error), overloaded=error.overloaded)
                reasons.append(f"{server.name}: {error}")
        raise ValueError("; ".join(reasons))

    def _written(self, server: CdxServer, found: Found, out: IO[bytes]) -> bool:
        """Whether *server* has the payload, which is in *out* then.

        Raises:
            NoAnswer: It does not answer.
            ValueError: The revisit states no digest.
        """
        wanted = parse(found.headers.get("warc-payload-digest"))
        for capture in self._captures(server, found):
            out.seek(0)
            out.truncate()
            server.replay(capture, self._replay, out)
            computed = hashing(wanted.algorithm)
            out.seek(0)
            while part := out.read(_PART):
                computed.update(part)
            if computed.digest() == wanted.value:
                return True
        return False

    def _captures(self, server: CdxServer, found: Found) -> Iterator[Answer]:
        """What *server* has that may be the original, the likeliest first."""
        get = found.headers.get
        named = get("warc-refers-to-target-uri").strip("<>")
        url = named or get("warc-target-uri").strip("<>")
        date = get("warc-refers-to-date") or get("warc-date")
        digest = parsed(get("warc-payload-digest"))
        started = (microseconds(date) or 0) / 1e6
        said = get("warc-payload-digest")
        captures = server.captures(Wanted(url, (said,), started))
        likely: Sequence[tuple[int, Answer]] = [
            (0 if is_named else 1, each)
            for each in captures
            if each.mime != REVISIT and sort_key(each.url) == sort_key(url)
            if (is_named := bool(named) and each.timestamp[:14] == digits(date))
            or (parsed(each.digest) == digest)
        ]
        for _, each in sorted(likely, key=lambda pair: pair[0])[:CANDIDATES]:
            yield each
