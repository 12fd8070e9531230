"""Write what CI installs: each distribution with its version.

    python .ci/lock.py FILE REQUIREMENT...

pip resolves each REQUIREMENT anew, ``.[dev]`` for one, for this Python and platform,
and installs nothing.
"""

import json
import re
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Resolve, and write the file."""
    file, *requirements = sys.argv[1:]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    done = subprocess.run(
        [*pip, *options, *requirements], check=True, stdout=subprocess.PIPE
    )
    lines = []
    for found in json.loads(done.stdout)["install"]:
        if "archive_info" not in found["download_info"]:
            continue  # frontier itself
        name = re.sub("[-_.]+", "-", found["metadata"]["name"].lower())
        lines.append(f"{name}=={found['metadata']['version']}\n")
    head = "# Made by `make lock`, for CPython {}.{} on Linux; .ci/run installs it.\n"
    Path(file).write_text(head.format(*sys.version_info) + "".join(sorted(lines)))


if __name__ == "__main__":
    main()
