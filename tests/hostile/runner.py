"""Has inputs run."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORDS = [sys.executable, "-W", "ignore", "-m", "tests.hostile.child"]


class Runner:
    """A process that runs inputs, started with the first one (`tests.hostile.child`).

    *modules* have inputs beside those of the corpus.

    *url* is the server for inputs that need a store: each finds *database* empty.
    """

    def __init__(self, url, modules=(), database=1):
        self._url = f"{url}?db={database}"
        self._modules = modules
        self._process = None
        self._count = 0

    def __enter__(self):
        self._directory = Path(tempfile.mkdtemp(prefix="hostile-"))
        return self

    def __exit__(self, *_):
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def run(self, *names):
        """What came of the inputs *names* in one process, or of the first that fails.

        See `tests.hostile.child.verdict_of`.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [*WORDS, *self._modules],
                cwd=ROOT,
                env={
                    **os.environ,
                    "PYTHONPATH": str(ROOT),
                    "COLUMNS": "200",
                    "MALLOC_ARENA_MAX": "2",  # each takes 64 MB of what is limited
                    "TLDEXTRACT_CACHE": f"{self._directory}/cache",
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        self._count += 1
        directory = self._directory / f"{os.getpid()}-{id(self)}-{self._count}"
        given = {"names": names, "directory": str(directory), "url": self._url}
        self._process.stdin.write(json.dumps(given) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the process that runs inputs has ended with {names}"
        shutil.rmtree(directory, ignore_errors=True)
        return json.loads(line)
