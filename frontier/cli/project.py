"""Which Scrapy project the nodes of ``frontier crawl run`` are started in."""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from pathlib import Path

from frontier.errors import ConfigurationError

MARK = "scrapy.cfg"
CLUSTER = "cluster"
"""The variant of a project's settings that reads ``REDIS_URL``."""


@dataclass(frozen=True, slots=True)
class Project:
    """A directory with a ``scrapy.cfg``."""

    directory: Path

    @classmethod
    def nearest(cls, directory: Path) -> Project:
        """The project that *directory* is in, else the one of this package.

        Raises:
            ConfigurationError: There is neither.
        """
        for candidate in (directory, *directory.parents):
            if (candidate / MARK).is_file():
                return cls(candidate)
        return cls.bundled()

    @classmethod
    def bundled(cls) -> Project:
        """The project that this package is a part of.

        Raises:
            ConfigurationError: The package was installed without it.
        """
        beside = Path(__file__).resolve().parents[2]
        if (beside / MARK).is_file():
            return cls(beside)
        raise ConfigurationError(
            f"there is no Scrapy project here: no {MARK} in this directory, in one "
            f"above it, or in {beside}"
        )

    def environment_for(self, redis_url: str) -> dict[str, str]:
        """What tells the project's nodes about the server at *redis_url*.

        Not an argument: a URL may have a password, and arguments are public.

        Raises:
            ConfigurationError: The project has no such settings.
        """
        if not redis_url:
            return {}
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(self.directory / MARK, encoding="utf-8")
        if not parser.has_option("settings", CLUSTER):
            raise ConfigurationError(
                f"{self.directory / MARK} names no settings {CLUSTER!r}, which are "
                "those that a crawl on a server of yours is run with"
            )
        return {"SCRAPY_PROJECT": CLUSTER, "REDIS_URL": redis_url}
