"""Which tests run which lines of the modules that are mutated.

A plugin for pytest: ``-p tests.mutants.covering`` with the file that it writes in the
environment. It traces the calls into those modules only, in all threads; what other
processes run is not seen.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

WRITTEN, FOLLOWED = "MUTANTS_COVERING", "MUTANTS_FOLLOWED"
"""Variables: the file to write, and the directories to follow, with colons between."""


class Covering:
    """Collects, for each test, its seconds and the lines that it ran."""

    def __init__(self, root: Path, followed: list[str]) -> None:
        self._root = f"{root}{os.sep}"
        self._followed = tuple(f"{root}{os.sep}{each}{os.sep}" for each in followed)
        self._lines: dict[str, set[int]] = defaultdict(set)
        self._of_file: dict[str, set[int] | None] = {}
        self.tests: dict[str, dict[str, Any]] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Follow *frame* if it is of a module that is followed."""
        name = frame.f_code.co_filename
        if name not in self._of_file:
            ours = name.startswith(self._followed)
            self._of_file[name] = self._lines[name] if ours else None
        lines = self._of_file[name]
        if lines is None:
            return None
        lines.add(frame.f_lineno)

        def line(frame: FrameType, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test, with its fixtures."""
        for lines in self._lines.values():
            lines.clear()
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.tests.setdefault(item.nodeid, {})["lines"] = {
                name.removeprefix(self._root): sorted(lines)
                for name, lines in self._lines.items()
                if lines
            }

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a test took; forget one that did not pass."""
        test = self.tests.setdefault(report.nodeid, {})
        test["seconds"] = test.get("seconds", 0.0) + report.duration
        test["passed"] = test.get("passed", True) and report.passed


def pytest_configure(config: pytest.Config) -> None:
    """Start to follow."""
    plugin = Covering(config.rootpath, os.environ[FOLLOWED].split(":"))
    config.pluginmanager.register(plugin, "covering")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write what was found."""
    plugin = config.pluginmanager.get_plugin("covering")
    if plugin is not None:
        passed = {
            name: {"seconds": round(test["seconds"], 3), "lines": test["lines"]}
            for name, test in plugin.tests.items()
            if test.get("passed") and "lines" in test
        }
        Path(os.environ[WRITTEN]).write_text(json.dumps(passed), "utf-8")
