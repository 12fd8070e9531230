"""``warc``: how fast exchanges are written to WARC files, and how small.

Every competitor writes the same request and response, of a page of about 20 kB,
with a payload digest and a block digest, each record a gzip member, in one
thread, to a file in a temporary directory. ``bare_loop`` compresses the same
bytes as frontier does, writes them, and does nothing else; ``digest_loop`` computes
the digests as well.
"""

from __future__ import annotations

import hashlib
import io
import random
import tempfile
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType
from isal import isal_zlib
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from benchmarks.harness import Figures, Report, alternate, environment
from frontier.model import Exchange
from frontier.warc.file_rotation import COMPRESSION_LEVEL, WarcConfig, WarcWriter
from frontier.warc.records import capture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from io import FileIO

    from benchmarks.harness import Options
    from benchmarks.server import Server

PAGE_BYTES = 20_000
GZIP = 31
"""Window bits of a gzip member."""
HEADERS = [
    ("Date", "Sat, 21 Nov 2026 08:00:00 GMT"),
    ("Server", "nginx"),
    ("Content-Type", "text/html; charset=utf-8"),
    ("Cache-Control", "max-age=3600"),
    ("Vary", "Accept-Encoding"),
]
ASKED = [("Host", "host.example"), ("Accept", "text/html"), ("User-Agent", "bench")]


def run(server: Server, options: Options) -> Report:
    """Measure every competitor; the server is not used."""
    exchanges = made_exchanges(400 if options.quick else 2_000)
    competitors: dict[str, Callable[[], Mapping[str, float]]] = {
        name: lambda write=write: _pace(write, exchanges)  # type: ignore[misc]
        for name, write in {
            "frontier": _frontier,
            "frontier_no_block_digest": _frontier_payload_only,
            "warcio": _warcio,
            "fastwarc": _fastwarc,
            "digest_loop": _digest_loop,
            "bare_loop": _bare_loop,
            "bare_loop_zlib_6": _bare_zlib,
        }.items()
    }
    figures = Figures()
    for name, metrics in alternate(2 if options.quick else 5, competitors):
        figures.add(name, metrics)
    pace, size, cpu = "mb_per_s", "bytes_per_exchange", "node_us_per_exchange"
    ratios = {
        "vs_warcio": figures.ratio(("frontier", pace), ("warcio", pace)),
        "vs_fastwarc": figures.ratio(("frontier", pace), ("fastwarc", pace)),
        "vs_digest_loop": figures.ratio(("digest_loop", cpu), ("frontier", cpu)),
        "vs_bare_loop": figures.ratio(("frontier", pace), ("bare_loop", pace)),
        "no_block_digest_vs_bare_loop": figures.ratio(
            ("frontier_no_block_digest", pace), ("bare_loop", pace)
        ),
        "size_vs_warcio": figures.ratio(("frontier", size), ("warcio", size)),
    }
    about = environment(server.info()) | {"exchanges": len(exchanges)}
    return Report("warc", about, figures.results(), ratios)


def _pace(
    write: Callable[[list[Exchange], Path], None], exchanges: list[Exchange]
) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        cpu, start = time.process_time(), time.perf_counter()
        write(exchanges, directory)
        seconds = time.perf_counter() - start
        cpu = time.process_time() - cpu
        size = sum(path.stat().st_size for path in directory.iterdir())
    payload = sum(len(exchange.response_body) for exchange in exchanges)
    return {
        "mb_per_s": payload / seconds / 1e6,
        "node_us_per_exchange": cpu / len(exchanges) * 1e6,
        "bytes_per_exchange": size / len(exchanges),
    }


def _frontier(exchanges: list[Exchange], directory: Path) -> None:
    write_warc(exchanges, directory, block_digest=True)


def _frontier_payload_only(exchanges: list[Exchange], directory: Path) -> None:
    write_warc(exchanges, directory, block_digest=False)


def write_warc(
    exchanges: list[Exchange], directory: Path, *, block_digest: bool
) -> None:
    """Write *exchanges* into *directory*, as a node does."""
    writer = WarcWriter(
        WarcConfig(directory, "bench", "node", 10**12, block_digest=block_digest),
        time.time,
    )
    for exchange in exchanges:
        digest = hashlib.sha256(bytes(exchange.response_body)).hexdigest()
        writer.append(exchange, digest)
    writer.close()


def _warcio(exchanges: list[Exchange], directory: Path) -> None:
    with (directory / "warcio.warc.gz").open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for exchange in exchanges:
            head = StatusAndHeaders("200 OK", HEADERS, protocol="HTTP/1.1")
            response = writer.create_warc_record(
                exchange.url,
                "response",
                payload=io.BytesIO(bytes(exchange.response_body)),
                length=len(exchange.response_body),
                http_headers=head,
            )
            asked = StatusAndHeaders("GET /page HTTP/1.1", ASKED, is_http_request=True)
            request = writer.create_warc_record(
                exchange.url, "request", http_headers=asked
            )
            writer.write_request_response_pair(request, response)


def _fastwarc(exchanges: list[Exchange], directory: Path) -> None:
    with (directory / "fastwarc.warc.gz").open("wb") as file:
        stream: Any = GzipWriter(file, compression_level=6)
        for exchange in exchanges:
            for kind, head, body in (
                (WarcRecordType.request, exchange.request_head, b""),
                (
                    WarcRecordType.response,
                    exchange.response_head,
                    bytes(exchange.response_body),
                ),
            ):
                record: Any = WarcRecord()
                record.init_headers(record_type=kind)
                record.headers["WARC-Target-URI"] = exchange.url
                record.set_bytes_content(head + body)
                record.write(stream, checksum_data=True)
        stream.close()


def _digest_loop(exchanges: list[Exchange], directory: Path) -> None:
    """What is left to do if nothing is decided, and no header is made."""
    with (directory / "digests.gz").open("wb", buffering=0) as file:
        for exchange in exchanges:
            hashlib.sha256(bytes(exchange.response_body)).hexdigest()
            block = hashlib.sha256(exchange.response_head)
            block.update(bytes(exchange.response_body))
            block.hexdigest()
            hashlib.sha256(exchange.request_head).hexdigest()
            _compress(file, exchange, isal_zlib, COMPRESSION_LEVEL)


def _bare_loop(exchanges: list[Exchange], directory: Path) -> None:
    _bare(exchanges, directory, isal_zlib, COMPRESSION_LEVEL)


def _bare_zlib(exchanges: list[Exchange], directory: Path) -> None:
    _bare(exchanges, directory, zlib, 6)


def _bare(exchanges: list[Exchange], directory: Path, library: Any, level: int) -> None:
    with (directory / "bare.gz").open("wb", buffering=0) as file:
        for exchange in exchanges:
            _compress(file, exchange, library, level)


def _compress(file: FileIO, exchange: Exchange, library: Any, level: int) -> None:
    """Compress what frontier writes: made beforehand would be quicker still."""
    for part in (
        exchange.request_head + HEAD,
        b"".join((HEAD, exchange.response_head, bytes(exchange.response_body))),
    ):
        made = library.compressobj(level, library.DEFLATED, GZIP)
        file.write(made.compress(part) + made.flush())


def made_exchanges(count: int) -> list[Exchange]:
    """Pages of made-up prose between markup; it shrinks to 40 %, as pages do."""
    dice = random.Random(5)
    letters = "etaoinshrdlucmfwyp"
    words = ["".join(dice.choices(letters, k=dice.randint(2, 10))) for _ in range(6000)]
    weights = [1 / (place + 5) for place in range(len(words))]
    asked = "".join(f"{name}: {value}\r\n" for name, value in ASKED)
    head = "".join(f"{name}: {value}\r\n" for name, value in HEADERS)
    made = []
    for number in range(count):
        parts, size = [], 0
        while size < PAGE_BYTES:
            prose = " ".join(dice.choices(words, weights, k=60))
            parts.append(f'<p class="text">{prose}</p>\n<a href="/{number}">more</a>')
            size += len(parts[-1])
        made.append(
            Exchange(
                url=f"https://host.example/page/{number}",
                started=1_780_000_000.0 + number,
                request_head=f"GET /page HTTP/1.1\r\n{asked}\r\n".encode(),
                request_body=b"",
                response_head=f"HTTP/1.1 200 OK\r\n{head}\r\n".encode(),
                response_body="".join(parts).encode(),
                status=200,
                ip="127.0.0.1",
            )
        )
    return made


_SAMPLE = made_exchanges(1)[0]
HEAD = bytes(capture(_SAMPLE, "0" * 64, "<urn:uuid:0>", "bench")[1].parts[0])
"""The WARC header of a response."""
