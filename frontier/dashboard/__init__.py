"""The status page: what a crawl looks like now, in a browser and as JSON.

It reads and never writes. One thread at a time looks at the store, for all viewers
(`looks`); what it has seen is rendered once (`page`) and sent to each of them as events
(`app`). `access` says who may ask, `server` runs it all, in a command or beside a node.

Called by the command ``frontier dashboard``.
"""

from __future__ import annotations

from importlib.util import find_spec

from frontier.errors import ConfigurationError

LIBRARIES = ("jinja2", "starlette", "uvicorn")


def require_libraries(what: str) -> None:
    """Raise if a library that *what* needs is missing; importing them would take long.

    Raises:
        ConfigurationError: One is missing.
    """
    for library in LIBRARIES:
        if find_spec(library) is None:
            raise ConfigurationError(
                f"{what} needs {library}: pip install 'frontier-crawl[dashboard]'"
            )
