"""``python -m frontier`` is the command ``frontier``."""

from __future__ import annotations

from frontier.cli import main

if __name__ == "__main__":
    main()
