"""One machine: the nodes share a private store that they start themselves.

Start ``scrapy crawl site -a seeds=...`` in as many terminals as there should be
nodes. State lives in ``.frontier/``, WARC files in ``warcs/``.
"""

from settings.base import *  # noqa: F403 (that is how Scrapy settings are layered)

FRONTIER_STORE_DIR = ".frontier"
FRONTIER_WARC_DIR = "warcs"
