"""A real browser for tests of the status page, and what it finds wrong with a page."""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.foreign import lacks

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDTHS = {360: 780, 1920: 1080}
"""Widths at which pages are looked at, and heights."""
SCHEMES = ("light", "dark")
SLOWEST = 240_000
"""Milliseconds after which something that should happen is said not to."""


@pytest.fixture(scope="module")
def chromium():
    """The browser; without it a laptop skips and CI fails.

    Of one module: while Playwright runs, so does its event loop, and no other can.
    """
    if not CHROMIUM.exists():
        lacks("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launch = playwright.chromium.launch
        browser = launch(executable_path=str(CHROMIUM), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """Open pages of which each complaint of the browser fails the test."""
    with ExitStack() as stack:
        said = []

        def note(line):
            if line.type in {"error", "warning"}:
                said.append(line.text)

        def tab(width=1920, scheme="light", **options):
            context = chromium.new_context(
                viewport={"width": width, "height": WIDTHS.get(width, 1080)},
                color_scheme=scheme,
                reduced_motion="reduce",
                **options,
            )
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(SLOWEST)
            page.on("console", note)
            page.on("pageerror", lambda error: said.append(str(error)))
            return page

        yield tab
        assert said == []


@pytest.fixture
def shots(tmp_path):
    """Where pictures of pages are kept: what DASHBOARD_SHOTS names, if it is set."""
    folder = Path(os.environ.get("DASHBOARD_SHOTS") or tmp_path / "shots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def serious_faults(page):
    """What axe-core finds that keeps people from using *page*."""
    from axe_playwright_python.sync_playwright import Axe

    # Of a picture with a name and a table, the thousand pieces need none.
    found = Axe().run(page, {"exclude": [["#cells"]]}).response["violations"]
    return [
        (fault["id"], [node["html"][:200] for node in fault["nodes"][:5]])
        for fault in found
        if fault["impact"] in {"serious", "critical"}
    ]


def look_everywhere(page, name, shots, judged=None):
    """Keep pictures of *page* in each width and scheme; what is wrong with it there.

    With *judged* axe looks only there.
    """
    wrong = {}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        for width, height in WIDTHS.items():
            page.set_viewport_size({"width": width, "height": height})
            page.screenshot(path=shots / f"{name}-{width}-{scheme}.png", full_page=True)
            is_judged = judged is None or (width, scheme) in judged
            wrong[width, scheme] = serious_faults(page) if is_judged else []
            too_wide = page.evaluate(
                "document.documentElement.scrollWidth > innerWidth"
            )
            if too_wide:
                wrong[width, scheme].append("it has to be moved sideways")
    return {where: faults for where, faults in wrong.items() if faults}
