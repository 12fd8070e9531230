"""The process of a node of ``frontier crawl run``: Scrapy, and nothing of a command.

``python -m frontier.session.process NODE`` reads its arguments from standard input, a
JSON list: everybody can read those of a process, and settings may be secrets.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Run Scrapy, in this process, with the arguments from standard input.

    Raises:
        SystemExit: With Scrapy's exit code.
    """
    words = json.load(sys.stdin.buffer)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    from scrapy.cmdline import execute

    sys.argv = ["scrapy", *words]
    execute()


if __name__ == "__main__":
    main()
