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

import os
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import pyarrow.parquet as pq

from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa

MEMORY = "1GB"
"""The limit of DuckDB's memory."""
FETCHED = 10_000
"""Rows that are fetched at a time."""
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


@contextmanager
def duckdb_engine(
    scratch: Path, memory: str = MEMORY, threads: int = 0
) -> Iterator[Engine]:
    """DuckDB in this process, which sorts in *scratch* above *memory*.

    Raises:
        ConfigurationError: *memory* is no size.
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
        yield _DuckDb(connection)


class _DuckDb:
    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

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
