"""Canonicalization: what a URL is to a crawl, an index or an archive."""

from __future__ import annotations

from frontier.errors import InvalidURL
from frontier.urls.canon.originals import apply

__all__ = ["InvalidURL", "apply"]
