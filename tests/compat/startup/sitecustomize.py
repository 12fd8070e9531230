"""Gives every Scrapy project the add-on, in each process of Scrapy's test-suite.

Python imports this module at its start from the folder that `scrapy_suite` puts on
``PYTHONPATH``, so that the processes that tests start have the add-on too. It
changes Scrapy's *default* settings: what a test sets itself still wins.
"""

import importlib.abc
import importlib.util
import os
import sys
import uuid

DEFAULTS = "scrapy.settings.default_settings"


class _Defaults(importlib.abc.MetaPathFinder):
    """Loads Scrapy's default settings, and adds to them."""

    def find_spec(self, name, path=None, target=None):
        """Find the settings as everybody else would, once."""
        if name != DEFAULTS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            directory = os.environ["COMPAT_DIR"]
            module.ADDONS = {"frontier.addon.Addon": 100}
            module.REDIS_URL = os.environ["COMPAT_REDIS_URL"]
            module.FRONTIER_STORE_DIR = directory
            module.FRONTIER_WARC_DIR = os.path.join(directory, "warcs")  # noqa: PTH118
            # A host that says 503 is tried for an hour else: no test waits for that.
            module.FRONTIER_BACKOFF_TIMES = 0
            module.FRONTIER_BACKOFF_UNREACHABLE_AFTER = 0
            module.FRONTIER_NAMESPACE = "p" + uuid.uuid4().hex
            module.FRONTIER_COLLECTION = module.FRONTIER_NAMESPACE

        spec.loader.exec_module = exec_module
        return spec


if "COMPAT_REDIS_URL" in os.environ:
    sys.meta_path.insert(0, _Defaults())
