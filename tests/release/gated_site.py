"""A site on addresses of its own, whose pages are held back until somebody says go.

    python -m tests.release.gated_site ADDRESS,... PORT LOG GATE FREE

The first FREE requests are answered; the others wait until the file GATE is there.
"""

import asyncio
import socket
import sys
import threading
from pathlib import Path

from frontier.testing import server
from frontier.testing.site import Site

URLS, MONTHS = 60, 0


def site_of(hosts):
    """The site, which has not been told its addresses."""
    return Site(urls=URLS, hosts=hosts, calendar_months=MONTHS)


class Gated(server.SiteServer):
    """Answers no more than *free* requests before *gate* exists."""

    async def _is_gone_early(self, host, wait, reader):
        self.free -= 1
        while self.free < 0 and not self.gate.exists():
            await asyncio.sleep(0.05)
        return await super()._is_gone_early(host, wait, reader)


def main():
    """Serve until killed."""
    given, port, log, gate, free = sys.argv[1:]
    addresses = given.split(",")

    def listen(hosts, first):
        return [socket.create_server((each, first)) for each in addresses[:hosts]]

    server.listen = listen
    site = Gated(site_of(len(addresses)), log=Path(log), port=int(port))
    site.gate, site.free = Path(gate), int(free)
    with site:
        threading.Event().wait()


if __name__ == "__main__":
    main()
