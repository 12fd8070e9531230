"""Fetches one page and notes what the process has taken until then."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import scrapy
from typing_extensions import override

if TYPE_CHECKING:
    from scrapy.http import Response


class FirstPageSpider(scrapy.Spider):
    """Fetches *url*, and writes a line of JSON to *notes* when it has arrived."""

    name = "first_page"

    def __init__(self, url: str = "", notes: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = [url]
        self.notes = Path(notes)

    @override
    def parse(self, response: Response) -> None:
        """Note the CPU time of this process, and when the page arrived."""
        found = {"cpu": time.process_time(), "at": time.monotonic()}
        found["bytes"] = len(response.body)
        self.notes.write_text(json.dumps(found), "utf-8")
