"""Sphinx's settings for the site: ``make docs`` builds it into ``build/docs``.

The source directory is the repository's root, so that a link which works on a Git
host works on the site too, and the other way round (docs/decisions/tests.md).
"""

import sys
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / ".ci"))
from reference import expand

project = "frontier"
author = "The frontier authors"
version = release = metadata.version("frontier-crawl")

root_doc = "docs/index"
include_patterns = ["*.md", "docs/**", "**/README.md"]
exclude_patterns = [".*", "build", "dist", "warcs", "**/__pycache__"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]

html_theme = "furo"
html_title = f"frontier {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "to_docs.html"}
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
templates_path = ["_templates"]

# GitHub's anchors, which `tests/test_docs.py` checks too.
myst_heading_anchors = 4
myst_enable_extensions: list[str] = []
# Examples of JSON and TOML leave things out: "..." is none of their words.
suppress_warnings = ["misc.highlighting_failure"]

# A block of commands is copied without prompts and without what they print.
copybutton_prompt_text = r"\$ |> "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"

# Docstrings have names between single backquotes.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = True


def draw(_app, _what, _name, _object, _options, lines):
    """Keep the lines of a drawing in a docstring as they are."""
    drawn = [number for number, line in enumerate(lines) if "──" in line]
    if drawn:
        first, last = drawn[0] - 1, drawn[-1] + 1
        lines[first:last] = ["::", "", *(f"    {line}" for line in lines[first:last])]


MENDS = {
    '<aside class="sidebar-drawer': '<aside aria-label="Site" class="sidebar-drawer',
    '<aside class="toc-drawer': '<aside aria-label="On this page" class="toc-drawer',
    '<span class="pre">-': '<span class="pre option-name">-',
    'role="heading"': 'role="heading" aria-level="2"',
    '<div class="highlight"><pre>': '<div class="highlight"><pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
    '<div id="search-results">': '<h1>Search</h1>\n<div id="search-results">',
}
"""What the theme writes, and what readers' tools want in its place."""


def mend(app, error):
    """Name asides and options, give captions a level, and focus to what scrolls."""
    if error is None:
        for page in Path(app.outdir).rglob("*.html"):
            text = page.read_text("utf-8")
            for found, instead in MENDS.items():
                text = text.replace(found, instead)
            page.write_text(text, "utf-8")


def leave_out(app, _):
    """Keep decisions out of the search, where they would stand before the guides."""
    if app.env.docname.startswith("docs/decisions/"):
        app.env.metadata[app.env.docname]["nosearch"] = True


def fill_in(_app, _page, source):
    """Put tables of the code in the place of the blocks that stand for them."""
    source[0] = expand(source[0])


def setup(app):
    """Connect what is above."""
    app.connect("source-read", fill_in)
    app.connect("doctree-read", leave_out)
    app.connect("build-finished", mend)
    app.connect("autodoc-process-docstring", draw)
