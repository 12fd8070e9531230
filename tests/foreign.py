"""Other people's tools, each in a place of its own, installed when first asked for.

They are kept below ``.venv/foreign``, by what was asked for. On a machine without
Node or without a registry a test that needs one is skipped, but not in CI, where a
skip would hide that nothing was tried.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

PACKAGES = {
    "@webrecorder/wabac": "2.27.3",
    "esbuild": "^0.25",
    "fake-indexeddb": "^6",
    "unzipit": "^1",
    "yauzl": "^3",
    "fflate": "^0.8",
}
SCRIPT = Path(__file__).with_name("wabac.ts")
REQUIRE = (
    'import {createRequire} from "node:module"; '
    "const require = createRequire(import.meta.url);"
)
PLACE = Path(__file__).parents[1] / ".venv" / "foreign"


def missing(what):
    """Skip the test that needs *what*; in CI, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}, and CI has to have it")
    pytest.skip(what)


def python(*packages):
    """The directory of the scripts of an environment that has *packages*."""

    def make(place):
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        pip = [place / "bin" / "python", "-m", "pip", "-q", "install"]
        return subprocess.run([*pip, *packages], capture_output=True, text=True)

    return _made("python", packages, make) / "bin"


def node(packages, overrides=None):
    """A directory whose ``node_modules`` has npm's *packages*, name to version."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("there is no node, or no npm")
    facts = {"private": True, "type": "module", "dependencies": packages}
    if overrides:
        facts["overrides"] = overrides

    def make(place):
        place.mkdir(parents=True)
        (place / "package.json").write_text(json.dumps(facts))
        npm = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        return subprocess.run(npm, cwd=place, capture_output=True, text=True)

    return _made("node", [json.dumps(facts, sort_keys=True)], make)


def npm():
    """A directory whose ``node_modules`` has wabac and what else reads a zip."""
    # wabac wants warcio 2.4.12, which not every copy of the registry has yet.
    return node(PACKAGES, {"warcio": "2.4.11"})


def wabac(work):
    """A way to ask wabac for the members of a WACZ, and for what it replays.

    *work* is an empty directory.
    """
    (work / "node_modules").symlink_to(npm() / "node_modules")
    shutil.copy(SCRIPT, work)
    subprocess.run(
        [
            "node_modules/.bin/esbuild",
            SCRIPT.name,
            "--bundle",
            "--platform=node",
            "--format=esm",
            "--loader:.html=text",
            "--outfile=wabac.mjs",
            f"--banner:js={REQUIRE}",
        ],
        cwd=work,
        check=True,
        capture_output=True,
    )

    def ask(path, lookups=()):
        done = subprocess.run(
            ["node", "wabac.mjs", path],
            cwd=work,
            input=json.dumps(list(lookups)),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        answers = json.loads(done.stdout)
        return answers["members"], answers["found"]

    return ask


def _made(kind, named, make):
    made = PLACE / f"{kind}-{sha256(' '.join(named).encode()).hexdigest()[:12]}"
    PLACE.mkdir(parents=True, exist_ok=True)
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may want it too
        if not (made / "done").exists():
            shutil.rmtree(made, ignore_errors=True)
            done = make(made)
            if done.returncode:
                shutil.rmtree(made, ignore_errors=True)
                missing(f"{' '.join(named)} cannot be installed: {done.stderr[-500:]}")
            (made / "done").touch()
    return made
