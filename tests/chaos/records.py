"""What an archive has, read by libraries that did not write it."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from fastwarc.warc import ArchiveIterator

from frontier.errors import BadWarc
from frontier.files import OPEN
from frontier.warc.crawl_log import repair_logs
from frontier.warc.reader import records_in
from frontier.warc.repair import repair


class Original(NamedTuple):
    """What a revisit refers to."""

    url: str
    date: str


class Indexed(NamedTuple):
    """A payload that the index says is stored, and where."""

    digest: str
    url: str
    date: str


class Revisit(NamedTuple):
    """A revisit record."""

    url: str
    original: Original
    digest: str


@dataclass(slots=True)
class Records:
    """The captures of all files of a directory."""

    responses: object = field(default_factory=dict)
    """URL and date of each response, and the digest of its payload."""
    revisits: object = field(default_factory=list)
    broken: object = field(default_factory=list)
    """What is wrong with which file."""
    repaired: int = 0
    """How many files a killed node had left open."""

    @property
    def urls(self):
        """The URLs that were captured."""
        return {original.url for original in self.responses} | {
            revisit.url for revisit in self.revisits
        }


def read_archive(directory):
    """Repair what dead nodes have left in *directory*, and read all of it."""
    records = Records()
    records.repaired = len(repair(directory))
    repair_logs(directory)
    for path in sorted(directory.iterdir()):
        if path.name.endswith(OPEN):
            records.broken.append(f"{path.name} is still open")
        elif path.name.endswith(".warc.gz"):
            _read(path, records)
    return records


def _read(path, records):
    ends = []
    with path.open("rb") as stream, suppress(BadWarc):
        for found in records_in(stream, path.name):
            ends.append(found.offset + found.length)  # noqa: PERF401 - as far as it is
    size = path.stat().st_size
    if not ends or ends[-1] != size:
        whole = ends[-1] if ends else 0
        records.broken.append(f"{path.name} is whole up to {whole} of {size} bytes")
    try:
        count = _read_records(path, records)
    except (OSError, KeyError) as error:
        records.broken.append(f"{path.name} cannot be read: {error!r}")
    else:
        if count != len(ends):
            records.broken.append(f"{path.name}: {len(ends)} members, {count} records")


def _read_records(path, records):
    count = 0
    with path.open("rb") as stream:
        for record in ArchiveIterator(stream, parse_http=False):
            count += 1
            headers = {name.lower(): value for name, value in record.headers.items()}
            if not record.verify_block_digest():
                records.broken.append(f"{path.name}: {headers} fails its digest")
            _note(headers, records)
    return count


def _note(headers, records):
    kind = headers["warc-type"]
    if kind not in {"response", "revisit"}:
        return
    url, digest = headers["warc-target-uri"], headers["warc-payload-digest"]
    if kind == "response":
        records.responses[Original(url, headers["warc-date"])] = digest
    else:
        original = Original(
            headers.get("warc-refers-to-target-uri", ""),
            headers.get("warc-refers-to-date", ""),
        )
        records.revisits.append(Revisit(url, original, digest))
