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

from tests.harness.commands import output_of

PACKAGES = {
    "@webrecorder/wabac": "2.27.3",
    "esbuild": "^0.25",
    "fake-indexeddb": "^6",
    "unzipit": "^1",
    "yauzl": "^3",
    "fflate": "^0.8",
}
INDEXER = {
    "@webrecorder/wabac": "2.27.3",
    "warcio": "2.4.11",
    "esbuild": "^0.25",
    "client-zip": "^2",
    "css-selector-parser": "^3",
    "fetch-socks": "^1",
    "get-folder-size": "^5",
    "ioredis": "^5",
    "iso-639-1": "^3",
    "js-levenshtein": "^1",
    "js-yaml": "^4.3",
    "normalize-url": "^9",
    "p-queue": "^7.3",
    "robots-parser": "^3",
    "sax": "^1",
    "undici": "^7.28",
    "uuid": "^14",
    "yargs": "^17.7",
}
"""What Browsertrix's indexer needs of what its crawler needs."""
BROWSERS = (
    "@aws-sdk/client-s3",
    "@aws-sdk/lib-storage",
    "@puppeteer/replay",
    "browsertrix-behaviors",
    "pixelmatch",
    "pngjs",
    "puppeteer-core",
    "sharp",
    "ws",
)
"""What it imports by way of other modules, and never calls."""
NOTHING = """
const thing = class {};
module.exports = new Proxy({}, {get: (_, n) => n === "__esModule" ? true : thing});
"""
SCRIPT = Path(__file__).with_name("wabac.ts")
REQUIRE = (
    'import {createRequire as makeRequire} from "node:module"; '
    "const require = makeRequire(import.meta.url);"
)
PLACE = Path(__file__).parents[1] / ".venv" / "foreign"


def lacks(what):
    """Skip the test that needs *what*; where all servers have to be, fail it."""
    if os.environ.get("TEST_SERVERS") == "all":
        pytest.fail(f"there is no {what} here, but TEST_SERVERS is 'all'")
    pytest.skip(f"there is no {what} here")


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
        asked = json.dumps(list(lookups))
        said = output_of(["node", "wabac.mjs", path], cwd=work, input=asked)
        answers = json.loads(said)
        return answers["members"], answers["found"]

    return ask


def browsertrix(work):
    """A way to run Browsertrix's indexer in *work*, a directory, with options.

    Its source is in no registry: ``BROWSERTRIX_SOURCE`` names a checkout.
    """
    source = os.environ.get("BROWSERTRIX_SOURCE")
    if not source:
        pytest.skip("BROWSERTRIX_SOURCE names no checkout of browsertrix-crawler")
    place = work / "browsertrix"
    (place / "dist" / "util").mkdir(parents=True)
    shutil.copytree(Path(source) / "src", place / "src")
    shutil.copytree(Path(source) / "html", place / "html")
    shutil.copy(Path(source) / "package.json", place)
    needed = node(INDEXER, {"warcio": "2.4.11"})
    (place / "node_modules").symlink_to(needed / "node_modules")
    (place / "nothing.cjs").write_text(NOTHING)
    subprocess.run(
        [
            "node_modules/.bin/esbuild",
            "src/indexer.ts",
            "--bundle",
            "--platform=node",
            "--format=esm",
            "--loader:.html=text",
            "--outfile=dist/util/indexer.mjs",  # it looks for package.json from there
            f"--banner:js={REQUIRE}",
            *(f"--alias:{name}=./nothing.cjs" for name in BROWSERS),
        ],
        cwd=place,
        check=True,
        capture_output=True,
    )

    def run(*options):
        indexer = place / "dist" / "util" / "indexer.mjs"
        return output_of(["node", indexer, *options], cwd=work)

    return run


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
