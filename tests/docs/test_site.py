"""The site that `make docs` has built."""

import os
import re
import shutil
import zlib
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

import frontier.addon
import frontier.errors

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
SITE = ROOT / "build" / "docs"
PAGES = sorted(SITE.rglob("*.html"))


def names():
    """The Python names that the site has an entry for."""
    inventory = (SITE / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(inventory).decode().splitlines()
    return {line.split()[0] for line in lines if " py:" in line}


def test_api_page_documents_what_a_project_may_name():
    """The public names, the middlewares of the add-on, the errors, what pages name."""
    public = {
        f"{getattr(frontier, name).__module__}.{name}"
        for name in frontier.__all__
        if name != "__version__"
    }
    middlewares = {
        f"{each.__module__}.{name}"
        for name, each in vars(frontier.addon).items()
        if name.endswith("Middleware") and each.__module__.startswith("frontier.")
    }
    errors = {
        f"frontier.errors.{name}"
        for name, error in vars(frontier.errors).items()
        if isinstance(error, type) and issubclass(error, Exception)
    }
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "frontier/settings/config.py"]
    name = re.compile(r"`(frontier(?:\.[a-z_]+)+\.[A-Z]\w*[a-z]\w*)[(`]")
    named = {found for page in pages for found in name.findall(page.read_text())}

    for some in (public, middlewares, errors, named):
        assert len(some) > 2
        assert some <= names()


def test_no_page_loads_from_another_host():
    loads = re.compile(r'<(?:script|img|link|iframe)[^>]+(?:src|href)="(https?:)?//')

    assert len(PAGES) > 50
    assert [page for page in PAGES if loads.search(page.read_text("utf-8"))] == []


@pytest.mark.parametrize("width", [360, 1440])
def test_search_finds_a_setting_offline(page_of, width):
    """Read from the disk: nothing is asked of anybody."""
    page, asked = page_of(width)
    page.goto((SITE / "index.html").as_uri())
    page.wait_for_url("**/docs/docs/index.html")
    page.goto((SITE / "search.html").as_uri() + "?q=FRONTIER_LEASE_TTL")
    results = page.locator("ul.search li a")
    results.filter(has_text="FRONTIER_LEASE_TTL").first.click()
    page.wait_for_url("**/docs/settings.html**")

    overflow = "document.documentElement.scrollWidth > window.innerWidth"
    assert not page.evaluate(overflow)
    assert [url for url in asked if not url.startswith("file:")] == []


@pytest.mark.parametrize(
    "case",
    [
        "README light 360",
        "docs/index dark 1440",
        "docs/tutorial dark 360",
        "docs/settings light 1440",
        "docs/api light 360",
        "search dark 1440",
    ],
)
def test_axe_finds_no_violation(page_of, case):
    name, scheme, width = case.split()
    page, _ = page_of(int(width), scheme)
    page.goto((SITE / f"{name}.html").as_uri())

    found = Axe().run(page).response["violations"]
    assert [
        (each["id"], [node["target"] for node in each["nodes"]][:3]) for each in found
    ] == []


@pytest.fixture
def page_of():
    """Open a page of a browser, and note what it asks for."""
    path = shutil.which("chromium")
    if path is None and os.environ.get("TEST_SERVERS") != "all":
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )

        def opened(width, scheme="light"):
            page = browser.new_page(
                viewport={"width": width, "height": 900}, color_scheme=scheme
            )
            page.set_default_timeout(120_000)
            asked = []
            page.on("request", lambda request: asked.append(request.url))
            return page, asked

        yield opened
        browser.close()
