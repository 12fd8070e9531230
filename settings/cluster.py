"""Several machines: all nodes name the same Redis or Valkey server.

``SCRAPY_PROJECT=cluster REDIS_URL=redis://HOST:6379/0 scrapy crawl site -a seeds=...``
The server must run with ``maxmemory-policy noeviction`` and should keep an
append-only file.
"""

import os

from settings.base import *  # noqa: F403 (that is how Scrapy settings are layered)

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")

# URLs to expect in the whole crawl: `docs/settings.md` tells what it costs.
FRONTIER_BLOOM_CAPACITY = 10_000_000
FRONTIER_LEASE_TTL = 15.0
