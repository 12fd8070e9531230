"""Other people's readers, and what they think of our files."""

import subprocess
import sys
from pathlib import Path

from fastwarc.warc import ArchiveIterator as FastwarcIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator

SCRIPTS = Path(sys.executable).parent


def read_warcio(path):
    """Return (type, headers as a dict, HTTP headers, payload) of each record."""
    found = []
    with path.open("rb") as stream:
        for record in WarcioIterator(stream, check_digests="raise"):
            payload = record.raw_stream.read()
            headers = dict(record.rec_headers.headers)
            http = record.http_headers.headers if record.http_headers else []
            found.append((record.rec_type, headers, http, payload))
    return found


def read_fastwarc(path):
    """Return (type, block) of each record."""
    found = []
    with path.open("rb") as stream:
        for record in FastwarcIterator(stream, parse_http=False):
            assert record.verify_block_digest()
            found.append((record.headers["WARC-Type"], record.reader.read()))
    return found


def run(*command):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False
    )


def assert_sound(path):
    """Let the two judges look at a closed file."""
    warcio = run(SCRIPTS / "warcio", "check", "-v", path)
    assert warcio.returncode == 0, warcio.stdout
    assert "digest failed" not in warcio.stdout
    assert "no digest to check" not in warcio.stdout
    assert "skipping rest" not in warcio.stdout
    fastwarc = run(SCRIPTS / "fastwarc", "check", "-q", path)
    assert fastwarc.returncode == 0, fastwarc.stdout
    assert "FAIL" not in fastwarc.stdout
