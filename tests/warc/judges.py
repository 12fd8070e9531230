"""Other people's readers, and what they think of our files."""

import contextlib
import io
from types import SimpleNamespace

from click.testing import CliRunner
from fastwarc.cli import main as fastwarc
from fastwarc.warc import ArchiveIterator as FastwarcIterator
from warcio.archiveiterator import ArchiveIterator as WarcioIterator
from warcio.checker import Checker

from frontier.cdx.lines import listed as line_of, paired
from frontier.warc.reader import records_of


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


def records_in(paths):
    """Headers as a dict, and the block, of each record of *paths*, as of FastWARC."""
    for path in paths:
        with path.open("rb") as stream:
            for record in FastwarcIterator(stream, parse_http=False):
                yield dict(record.headers), record.reader.read()


def assert_sound(path):
    """Let the two judges look at a closed file, as their commands ``check`` do."""
    asked = SimpleNamespace(inputs=[str(path)], verbose=True)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = Checker(asked).process_all()
    said = said.getvalue()
    assert code == 0, said
    assert "digest failed" not in said
    assert "no digest to check" not in said
    assert "skipping rest" not in said
    judged = CliRunner().invoke(fastwarc, ["check", "-q", str(path)])
    assert judged.exit_code == 0, judged.output
    assert "FAIL" not in judged.output


def listed(path):
    """The lines of the CDXJ beside the WARC file *path*, which are sorted."""
    raw = path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj").read_bytes()
    lines = raw.splitlines(keepends=True)
    assert lines == sorted(lines)
    return lines


def read_listing(path):
    """The lines that reading the file *path* gives."""
    with path.open("rb") as file:
        blocks = iter(lambda: file.read(1 << 20), b"")
        made = paired(records_of(path.name, blocks))
        lines = [line_of(one, path.name, how) for one, how in made]
        return sorted(line.encode() for line in lines if line is not None)
