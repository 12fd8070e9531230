"""The process of a node of ``frontier crawl run``: Scrapy, and nothing of a command.

``python -m frontier.session.process NODE`` has its arguments from standard input, a
JSON list: those of a process are there for all to read, and settings may be secrets.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> None:
    """Be Scrapy with the arguments that standard input has.

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
