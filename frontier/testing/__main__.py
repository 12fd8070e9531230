"""``python -m frontier.testing``: the site as a process of its own.

Prints one line of JSON when it accepts connections, then serves until SIGTERM
or SIGINT.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from frontier.errors import ConfigurationError
from frontier.testing.server import SiteServer
from frontier.testing.site import Site

STOPS = (signal.SIGTERM, signal.SIGINT)


def main() -> int:
    """Serve until a signal comes; return the exit code."""
    parser = _parser()
    args = parser.parse_args()
    # Blocked in all threads, and waited for: a handler that sets an event is for ever
    # stuck if it interrupts the wait for that event while the event is locked.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        site = Site(args.urls, args.hosts, published=args.published)
        server = SiteServer(site, log=args.log, delay=args.delay, port=args.port)
        server.start()
    except (ConfigurationError, OSError) as e:
        parser.error(str(e))
    ready = {
        "seeds": server.seeds,
        "hosts": server.hosts,
        "log": None if args.log is None else str(args.log),
        "pid": os.getpid(),
    }
    print(json.dumps(ready), flush=True)
    if args.publish_every:
        while signal.sigtimedwait(STOPS, args.publish_every) is None:
            server.publish()
    else:
        signal.sigwait(STOPS)
    server.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m frontier.testing")
    parser.add_argument("--urls", type=int, default=400)
    parser.add_argument("--hosts", type=int, default=5)
    parser.add_argument(
        "--port", type=int, default=0, help="common or first port; 0 picks a free one"
    )
    parser.add_argument("--log", type=Path, help="append a JSON line per request")
    parser.add_argument(
        "--delay", type=float, default=0.0, help="seconds before each answer"
    )
    parser.add_argument(
        "--published", type=int, default=0, help="items of its feeds at the start"
    )
    parser.add_argument(
        "--publish-every",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="publish one more item on each host every so often; 0: never",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
