"""What runs the queries over manifests: DuckDB on one machine, or Spark on many.

What always holds:

1.  Both run the same text, and give the same rows in the same order. It says what it
    orders by, and asks nothing of which the two disagree: NULLs are not ordered.
2.  What is written is one Parquet file, which gets its name from who asked for it.
3.  Neither holds all rows: DuckDB sorts on disk above its limit of memory, Spark as it
    is set up. No row passes through Python but those of `Engine.rows`.

Of Spark, manifests and what is written are read and written by its workers: all of
them see the directory of the manifests under the same path, and have frontier
installed.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from frontier.errors import ConfigurationError
from frontier.postcrawl.manifest import SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

MEMORY = "1GB"
"""The limit of DuckDB's memory."""
PER_THREAD = 125_000_000
"""Bytes of memory for each of DuckDB's threads, of which it has as many as CPUs: each
takes memory that it does not give back, and 16 ran out of 256 MB with 1,000,000 rows,
where one plans three times as many in 128 MB."""
FETCHED = 10_000
"""Rows that are fetched at a time."""
PER_ROW = 250
"""Bytes of memory for each row of a manifest with which a plan is sorted at once."""
_NO_ROOM = "there is no room to sort or to write"
_FLUSHED = 20_000
"""Rows of a part that wait in memory, for each thread."""
_SORTED = "\nORDER BY file, record_offset"
PER_TASK = 16
"""Files of one job for each of Spark's tasks: what they return is in memory."""


class Engine(Protocol):
    """Runs queries; a table or view that is named again is another."""

    def view(self, name: str, places: Sequence[Path]) -> None:
        """Name the rows of Parquet files."""

    def table(self, name: str, rows: pa.Table) -> None:
        """Name a few rows."""

    def rows(self, text: str) -> Iterator[tuple[Any, ...]]:
        """What *text* asks for; it is all taken before the next query."""

    def write(self, text: str, place: Path) -> None:
        """Write what *text* asks for to *place*, in its order."""

    def write_by_file(self, text: str, place: Path) -> None:
        """Write what *text* asks for of ``manifest`` to *place*.

        It has the columns *file* and *record_offset*, and is sorted by these.
        """


@contextmanager
def duckdb_engine(
    scratch: Path, memory: str = MEMORY, threads: int = 0
) -> Iterator[Engine]:
    """DuckDB in this process, which sorts in *scratch* above *memory*.

    It has *threads*, or as many as CPUs, but each has at least `PER_THREAD`.

    Raises:
        ConfigurationError: *memory* is no size, or too small for a query.
        OSError: A file cannot be read or written.
    """
    config: dict[str, Any] = {
        "memory_limit": memory,
        "temp_directory": os.fspath(scratch),
    }
    if threads:
        config["threads"] = threads
    try:
        connection = duckdb.connect(config=config)
    except duckdb.Error as error:
        raise ConfigurationError(f"--memory {memory!r}: {error}") from None
    with connection:
        try:
            _limit_threads(connection)
            yield _DuckDb(connection, scratch)
        except duckdb.OutOfMemoryException as error:
            first = str(error).partition("\n")[0]
            if "max_temp_directory_size" in first:  # DuckDB's share of the disk's room
                raise OSError(errno.ENOSPC, _NO_ROOM, os.fspath(scratch)) from None
            raise ConfigurationError(f"--memory {memory}: {first}") from None
        except duckdb.IOException as error:
            full = os.strerror(errno.ENOSPC)
            code = errno.ENOSPC if full in str(error) else errno.EIO
            said = _NO_ROOM if code == errno.ENOSPC else str(error)[:500]
            raise OSError(code, said, os.fspath(scratch)) from None


def _limit_threads(connection: duckdb.DuckDBPyConnection) -> None:
    """Leave each thread of *connection* `PER_THREAD` of its memory."""
    said = "SELECT current_setting('threads')"
    ((threads,),) = connection.execute(said).fetchall()
    most = max(1, _limit_of(connection) // PER_THREAD)
    if threads > most:
        connection.execute(f"SET threads={most}")


@contextmanager
def duckdb_of_manifests(directory: Path) -> Iterator[Engine]:
    """DuckDB with all manifests in *directory* as ``manifest``; it sorts there, too.

    In a directory of its own: several processes may do so.
    """
    with (
        tempfile.TemporaryDirectory(prefix="duckdb-", dir=directory) as scratch,
        duckdb_engine(Path(scratch)) as engine,
    ):
        engine.view("manifest", sorted(directory.glob(f"*{SUFFIX}")))
        yield engine


class _DuckDb:
    def __init__(self, connection: duckdb.DuckDBPyConnection, scratch: Path) -> None:
        self._connection = connection
        self._parts = scratch / "duckdb-parts"

    def view(self, name: str, places: Sequence[Path]) -> None:
        self._connection.unregister(name)
        found = self._connection.read_parquet([os.fspath(place) for place in places])
        found.create_view(name, replace=True)

    def table(self, name: str, rows: pa.Table) -> None:
        self._connection.register(name, rows)

    def rows(self, text: str) -> Iterator[tuple[Any, ...]]:
        found = self._connection.execute(text)
        while some := found.fetchmany(FETCHED):
            yield from some

    def write(self, text: str, place: Path) -> None:
        found = self._connection.sql(text)
        found.write_parquet(os.fspath(place), compression="zstd")

    def write_by_file(self, text: str, place: Path) -> None:
        """In parts, each of some files, if all are too many to be sorted at once.

        DuckDB sorts on disk, but to merge what it has sorted takes memory that grows
        with the rows: of 10,000,000 it had not enough in 256 MB.
        """
        parts = self._parts_of_files()
        if parts["part"][-1].as_py() == 0:
            self.write(f"{text}{_SORTED}", place)
            return
        shutil.rmtree(self._parts, ignore_errors=True)  # of a run that was killed
        try:
            self._connection.register("parts", parts)
            self._connection.execute(
                f"SET partitioned_write_flush_threshold={_FLUSHED}"
            )
            self._connection.execute(
                f"COPY (SELECT found.*, part FROM ({text}) found "  # noqa: S608 - ours
                "JOIN parts ON found.file = parts.file) TO "
                f"{_quoted(self._parts)} (FORMAT parquet, PARTITION_BY (part))"
            )
            self._sort(text, place)
        finally:
            shutil.rmtree(self._parts, ignore_errors=True)

    def _parts_of_files(self) -> pa.Table:
        """Files, and the part of each: as many rows as a quarter of the memory holds.

        All are in part 0 if they can be sorted at once.
        """
        limit = _limit_of(self._connection)
        counts = "SELECT file, count(*) FROM manifest GROUP BY file ORDER BY file"
        found = self._connection.execute(counts).fetchall()
        files = [file for file, _ in found]
        before = list(accumulate((count for _, count in found), initial=0))
        each = limit // PER_ROW
        numbers = [0 if before[-1] <= each else rows // (each // 4) for rows in before]
        columns = [files or [None], numbers[: len(files)] or [0]]
        return pa.table(columns, names=["file", "part"])

    def _sort(self, text: str, place: Path) -> None:
        schema = self._connection.sql(f"{text} LIMIT 0").to_arrow_table().schema
        with pq.ParquetWriter(place, schema, compression="zstd") as writer:
            made = self._parts.glob("part=*")
            for part in sorted(made, key=lambda path: int(path.name[5:])):
                files = sorted(os.fspath(each) for each in part.iterdir())
                rows = self._connection.read_parquet(files, hive_partitioning=False)
                rows = rows.order("file, record_offset")
                for batch in rows.to_arrow_reader(_FLUSHED):
                    writer.write_table(pa.Table.from_batches([batch]).cast(schema))


def _limit_of(connection: duckdb.DuckDBPyConnection) -> int:
    """The limit of memory in bytes, which DuckDB says as ``244.1 MiB``."""
    asked = "SELECT current_setting('memory_limit')"
    ((said,),) = connection.execute(asked).fetchall()
    number, _, unit = said.partition(" ")
    power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
    return int(float(number) * 1024**power)


def _quoted(path: Path) -> str:
    return "'" + os.fspath(path).replace("'", "''") + "'"


@contextmanager
def spark_engine(master: str, scratch: Path) -> Iterator[Engine]:
    """Spark at *master*, whose workers see *scratch*.

    Raises:
        ConfigurationError: PySpark is not installed, or finds no such master or Java.
    """
    yield _Spark(_session(master), scratch)


class _Spark:
    def __init__(self, session: Any, scratch: Path) -> None:
        self._session = session
        self._parts = scratch.absolute() / "spark-parts"

    def view(self, name: str, places: Sequence[Path]) -> None:
        paths = [place.absolute().as_uri() for place in places]
        self._session.read.parquet(*paths).createOrReplaceTempView(name)

    def table(self, name: str, rows: pa.Table) -> None:
        spelled = {"string": "STRING", "int32": "INT", "int64": "BIGINT"}
        columns = [f"{one.name} {spelled[str(one.type)]}" for one in rows.schema]
        values = [tuple(row.values()) for row in rows.to_pylist()]
        frame = self._session.createDataFrame(values, ", ".join(columns))
        frame.createOrReplaceTempView(name)

    def rows(self, text: str) -> Iterator[tuple[Any, ...]]:
        for row in self._session.sql(text).toLocalIterator():
            yield tuple(row)

    def write_by_file(self, text: str, place: Path) -> None:
        self.write(f"{text}{_SORTED}", place)

    def write(self, text: str, place: Path) -> None:
        shutil.rmtree(self._parts, ignore_errors=True)  # of a run that was killed
        try:
            frame = self._session.sql(text)
            frame.write.parquet(self._parts.as_uri(), compression="zstd")
            _join(sorted(self._parts.glob("part-*.parquet")), place)
        finally:
            shutil.rmtree(self._parts, ignore_errors=True)


def _join(parts: Sequence[Path], place: Path) -> None:
    """Write the rows of *parts*, which are sorted together, to *place*."""
    schema = pq.read_schema(parts[0]).remove_metadata()
    with pq.ParquetWriter(place, schema, compression="zstd") as writer:
        for part in parts:
            with pq.ParquetFile(part) as file:
                for group in range(file.num_row_groups):
                    rows = file.read_row_group(group)
                    writer.write_table(rows.replace_schema_metadata().cast(schema))


def spark_map(
    step: Callable[[Any], Any], given: Sequence[Any], master: str
) -> Iterator[Any]:
    """What *step* returns for each of *given*, by Spark at *master*.

    Raises:
        ConfigurationError: As of `spark_engine`.
    """
    context = _session(master).sparkContext
    many = context.defaultParallelism * PER_TASK
    for start in range(0, len(given), many):
        some = list(given[start : start + many])
        yield from context.parallelize(some, len(some)).map(step).collect()


def _session(master: str) -> Any:
    """Spark at *master*; it is started once in a process, and ends with it."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigurationError(
            "--engine spark needs PySpark, and Java 17 or newer; install it with: "
            "pip install 'frontier-crawl[spark]'"
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("frontier warc")
    builder = builder.config("spark.ui.enabled", "false")
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.sql.shuffle.partitions", "8")
    try:
        session = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise ConfigurationError(f"--master {master}: {error}") from None
    session.sparkContext.setLogLevel("ERROR")
    return session
