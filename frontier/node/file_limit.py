"""How many files, and so connections, this process may have open."""

from __future__ import annotations

import contextlib
import resource

from frontier.errors import ConfigurationError

FILES = 64
"""Files that a node may have open beside the connections of its requests."""


def raise_file_limit(requests: int) -> None:
    """Let this process open as many files as the system lets it.

    Raises:
        ConfigurationError: That is too few for so many *requests* at a time.
    """
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):  # macOS sets a lower one of its own
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = requests + FILES
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise ConfigurationError(
            f"CONCURRENT_REQUESTS = {requests} needs {needed} open files, and the "
            f"limit of this process is {limit} (ulimit -n)"
        )


def nears_file_limit(file: int) -> bool:
    """Whether *file*, just opened, is one of the last that this process may open."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 0 < limit - FILES // 2 <= file
