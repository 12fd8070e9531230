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
    from types import CodeType, FrameType

WRITTEN, FOLLOWED = "MUTANTS_COVERING", "MUTANTS_FOLLOWED"
"""Variables: the file to write, and the directories to follow, with colons between."""


class Covering:
    """Collects, for each test, its CPU seconds and the lines that it ran."""

    def __init__(self, root: Path, followed: list[str]) -> None:
        self._root = f"{root}{os.sep}"
        self._followed = tuple(f"{root}{os.sep}{each}{os.sep}" for each in followed)
        self._not_run: dict[CodeType, set[int]] = {}
        """By what a test has begun to run, the lines of it that it has not run yet."""
        self.tests: dict[str, dict[str, Any]] = {}

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Follow *frame* while lines of a module that is followed are not run yet."""
        code = frame.f_code
        if not code.co_filename.startswith(self._followed):
            return None
        left = self._not_run.get(code)
        if left is None:
            left = self._not_run[code] = lines_of(code)
        left.discard(frame.f_lineno)
        if not left:
            return None

        def line(frame: FrameType, event: str, _: Any) -> Any:
            left.discard(frame.f_lineno)
            frame.f_trace_lines = bool(left)
            return line

        return line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test, with its fixtures."""
        self._not_run, began = {}, sum(os.times()[:4])
        threading.settrace(self.trace)
        sys.settrace(self.trace)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            run: dict[str, set[int]] = defaultdict(set)
            for code, left in self._not_run.items():
                run[code.co_filename.removeprefix(self._root)] |= lines_of(code) - left
            found = self.tests.setdefault(item.nodeid, {})
            found["seconds"] = round(sum(os.times()[:4]) - began, 3)
            found["lines"] = {name: sorted(lines) for name, lines in run.items()}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note whether a test passes."""
        test = self.tests.setdefault(report.nodeid, {})
        test["passed"] = test.get("passed", True) and report.passed


def lines_of(code: CodeType) -> set[int]:
    """The lines of *code*, without those of functions in it."""
    return {line for _, _, line in code.co_lines() if line is not None}


def pytest_configure(config: pytest.Config) -> None:
    """Start to follow."""
    plugin = Covering(config.rootpath, os.environ[FOLLOWED].split(":"))
    config.pluginmanager.register(plugin, "covering")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write what was found."""
    plugin = config.pluginmanager.get_plugin("covering")
    if plugin is not None:
        passed = [
            (name, test["seconds"], test["lines"])
            for name, test in plugin.tests.items()
            if test.get("passed")
        ]
        Path(os.environ[WRITTEN]).write_text(json.dumps(passed), "utf-8")
