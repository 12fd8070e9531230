"""What of the metadata depends on where the project is published from.

``REPOSITORY_URL`` in the environment is the address of the repository, which
.github/workflows/release.yml sets to its own. Then the metadata has the project's URLs,
and the links of README.md lead to the files of this version. Without it there are no
URLs, and links stay as they are: no address is made up.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "REPOSITORY_URL"
PAGES = {
    "Changelog": "CHANGELOG.md",
    "Documentation": "docs",
    "Issues": "issues",
    "Repository": "",
    "Security": "SECURITY.md",
}


def absolute(text: str, files: str) -> str:
    """*text* with its links to files of the repository below *files*.

    A picture has to be the file itself, not the page that shows it.
    """
    text = re.sub(
        r"(!\[[^\]]*\]\()(?![a-z]+:)([^)]+)\)", rf"\1{files}/\2?raw=true)", text
    )
    return re.sub(r"\]\((?![a-z]+:|#)([^)]+)\)", rf"]({files}/\1)", text)


class CustomMetadataHook(MetadataHookInterface):
    """Adds ``readme`` and ``urls``, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Put them into *metadata*."""
        text = Path(self.root, "README.md").read_text("utf-8")
        urls: dict[str, str] = {}
        if address := os.environ.get(VARIABLE, "").rstrip("/"):
            files = f"{address}/blob/v{metadata['version']}"
            text = absolute(text, files)
            for name, page in PAGES.items():
                is_file = page.endswith(".md") or page == "docs"
                urls[name] = f"{files if is_file else address}/{page}".rstrip("/")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = urls
