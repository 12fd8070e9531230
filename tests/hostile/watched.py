"""What a node of a hostile crawl used, written where ``WATCHED`` says."""

import json
import os
import resource
from pathlib import Path

from scrapy import signals

from benchmarks.holding import Holding


class Watched:
    """An extension: how long our code held the loop, and the most of memory."""

    def __init__(self):
        self.holding = Holding()

    @classmethod
    def from_crawler(cls, crawler):
        made = cls()
        crawler.signals.connect(made.closed, signal=signals.engine_stopped)
        return made

    def closed(self):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        figures = {"stall_s": round(self.holding.longest, 3), "peak_mb": peak}
        path = Path(os.environ["WATCHED"]) / f"{os.getpid()}.json"
        path.write_text(json.dumps(figures))
