"""A Scrapy project of a test."""

import textwrap


def scrapy_project(root, spiders, settings="", **modules):
    """Write a project with the add-on into the directory *root*, and return that.

    *spiders* is its module ``own``, *settings* are more lines of its ``conf``, and
    *modules* are others, by name.
    """
    begin = 'SPIDER_MODULES = ["own"]\nADDONS = {"frontier.addon.Addon": 100}\n'
    root.mkdir(parents=True, exist_ok=True)
    (root / "scrapy.cfg").write_text("[settings]\ndefault = conf\n")
    written = {"conf": begin + settings, "own": spiders, **modules}
    for name, text in written.items():
        (root / f"{name}.py").write_text(textwrap.dedent(text))
    return root
