"""Writes logs as JSON: one object in each line, whatever is logged.

The members are ``timestamp`` (RFC 3339, UTC, milliseconds), ``level``, ``logger``,
``message``, ``node``, ``crawl``; ``spider`` where the record has one; ``exception`` and
``stack`` where there is one, as text. What always holds:

1.  A record is one line, whatever is in it: control characters, line breaks and
    everything beyond ASCII are escaped.
2.  No record raises: one that cannot be formatted is written as given, and says why.
3.  An exception that nobody has caught, in any thread, is a record too.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

SETTING = "FRONTIER_LOG_FORMAT"
JSON = "json"
MAX_LINE = 1 << 20
"""Most characters of a line that `read` reads."""

logger = logging.getLogger(__name__)

_names: WeakKeyDictionary[object, tuple[str, str]] = WeakKeyDictionary()
"""The node and the crawl of each spider of this process."""


def name(spider: object, node: str, crawl: str = "") -> None:
    """Put *node* and *crawl* in records of *spider*; in all, if it is the only one."""
    _names[spider] = (node, crawl)


def line(at: float, level: str, logger: str, message: str, **more: str) -> str:
    """The line of a record from the time *at*, in seconds since the Unix epoch."""
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    told = {
        "timestamp": when.removesuffix("+00:00") + "Z",
        "level": level,
        "logger": logger,
        "message": message,
        **more,
    }
    return json.dumps({key: _whole(value) for key, value in told.items()})


def _whole(text: str) -> str:
    """*text* without lone surrogates, which not every reader of JSON takes."""
    return text.encode("utf-8", "replace").decode()


class JsonFormatter(logging.Formatter):
    """Formats each record as one line of JSON, for ``FRONTIER_LOG_FORMAT = "json"``."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """The line, without a line break."""
        message, more = self._message(record), {}
        spider = getattr(record, "spider", None)
        if spider is not None:
            more["spider"] = str(getattr(spider, "name", spider))
        if record.exc_info:
            more["exception"] = self._exception(record.exc_info)
        if record.stack_info:
            more["stack"] = str(record.stack_info)
        node, crawl = self._names(spider)
        return line(
            record.created,
            record.levelname,
            record.name,
            message,
            node=node,
            crawl=crawl,
            **more,
        )

    def _message(self, record: logging.LogRecord) -> str:
        try:
            return record.getMessage()
        except Exception as error:  # noqa: BLE001 (a log tells, and does not raise)
            given = _text(record.msg)
            return f"{given} (cannot be formatted: {_text(error)})"

    def _exception(self, info: Any) -> str:
        try:
            return self.formatException(info)
        except Exception as error:  # noqa: BLE001 (the same)
            return f"{info[0]} (cannot be formatted: {_text(error)})"

    def _names(self, spider: Any) -> tuple[str, str]:
        known = list(_names.values())
        try:
            return _names[spider]
        except (KeyError, TypeError):
            return known[0] if len(known) == 1 else ("", "")


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 (whatever it is)
        return f"a {type(value).__name__}"


def is_chosen(settings: Mapping[str, Any]) -> bool:
    """Whether *settings* ask for JSON."""
    return settings.get(SETTING) == JSON


def log_uncaught() -> None:
    """Log what nobody catches, which Python would write to stderr as text."""

    def of_program(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        _log(kind, error, trace, "nobody has caught this")

    def of_thread(args: threading.ExceptHookArgs) -> None:
        if args.exc_type is not SystemExit:
            where = args.thread.name if args.thread else "a thread"
            _log(args.exc_type, args.exc_value, args.exc_traceback, f"in {where}")

    def of_object(args: sys.UnraisableHookArgs) -> None:
        told = args.err_msg or "cannot be raised"
        what = f"{told}: {_text(args.object)}"
        _log(args.exc_type, args.exc_value, args.exc_traceback, what)

    sys.excepthook = of_program
    threading.excepthook = of_thread
    sys.unraisablehook = of_object


def _log(
    kind: type[BaseException],
    error: BaseException | None,
    trace: TracebackType | None,
    what: str,
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        logger.critical("interrupted")
        return
    info = (kind, error or kind(), trace)
    logger.critical("%s: %s", what, _text(error), exc_info=info)


def read(text: str) -> dict[str, str] | None:
    """The text members of the record *text*; `None` if *text* is no record."""
    if not text.startswith("{") or len(text) > MAX_LINE:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("message"), str):
        return None
    return {key: value for key, value in found.items() if isinstance(value, str)}
