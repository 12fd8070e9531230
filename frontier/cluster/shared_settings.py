"""The settings that all nodes of a crawl must share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from frontier.errors import ConfigurationError
from frontier.settings.config import PREFIX, Config
from frontier.urls.canon.rulesets import label_of

FINGERPRINTER = "REQUEST_FINGERPRINTER_CLASS"
"""Scrapy's setting for what tells requests apart."""
SCRAPYS = "scrapy.utils.request.RequestFingerprinter"
CANONICALIZATION = "canonicalization"
"""What makes spellings of a URL the same; not a setting, but compared like one."""


def crawl_settings(
    config: Config, settings: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Setting name to value, as stored with the crawl.

    *settings* are Scrapy's; without them its own fingerprinter is assumed.

    Raises:
        ConfigurationError: Their fingerprinter is not a class.
    """
    stored = {
        PREFIX + one.name.upper(): getattr(config, one.name)
        for one in fields(config)
        if one.metadata["shared"]
    }
    return {
        **{n: list(v) if isinstance(v, tuple) else v for n, v in stored.items()},
        FINGERPRINTER: fingerprinter_name(settings or {}),
        CANONICALIZATION: label_of(config.canon_rules),
    }


def fingerprinter_name(settings: Mapping[str, Any]) -> str:
    """The full name of the fingerprinter's class, however *settings* name it.

    Raises:
        ConfigurationError: It cannot be imported.
    """
    value = settings.get(FINGERPRINTER) or SCRAPYS
    if isinstance(value, str):
        module, _, name = value.rpartition(".")
        try:
            value = getattr(import_module(module), name)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{FINGERPRINTER} = {value[:200]!r}: {error}"
            ) from None
    try:
        return f"{value.__module__}.{value.__qualname__}"
    except AttributeError:
        raise ConfigurationError(
            f"{FINGERPRINTER} = {value!r}: is not a class"
        ) from None
