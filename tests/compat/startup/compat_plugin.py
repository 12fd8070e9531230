"""A plug-in of pytest: each test of Scrapy's suite gets crawls of its own."""

import uuid

import pytest


@pytest.fixture(autouse=True)
def _own_namespace():
    from scrapy.settings import default_settings

    default_settings.FRONTIER_NAMESPACE = "t" + uuid.uuid4().hex
    default_settings.FRONTIER_COLLECTION = default_settings.FRONTIER_NAMESPACE
