"""Runs the queries over manifests: with DuckDB on one machine, or Spark on many.

What always holds:

1.  Both run the same text (``sql/``), and give the same rows, in the same order if the
    text states one. It avoids what the two disagree about: NULLs are not ordered.
2.  Output is a directory of Parquet files in which the rows of one file are found
    without reading those of the others (`part_of`).
3.  Neither holds all rows: DuckDB sorts on disk above its memory limit, Spark as it is
    set up. No row passes through Python except those of `DuckDb.rows`.

With Spark, its workers read the manifests and write the output: all of them must see
the directory of the manifests under the same path, and have frontier installed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from frontier.errors import ConfigurationError
from frontier.files import VARIABLE, make_directory, mode_of_environment
from frontier.postcrawl.manifest import SCHEMA, SUFFIX

MEMORY = "1GB"
"""DuckDB's memory limit."""
PER_THREAD = 125_000_000
"""Bytes of memory for each of DuckDB's threads, of which it has one per CPU. Each takes
memory that it does not give back: 16 ran out of 256 MB with 1,000,000 rows, while one
plans three times as many in 128 MB."""
FETCHED = 10_000
"""Rows that are fetched at a time."""
_TEXTS = Path(__file__).parent / "sql"
_NO_ROOM = "there is no room to sort or to write"
_PARTED = "SELECT *, substr(md5(file), 1, 2) AS part FROM ({}) rows_of_files"
"""Both engines have MD5: its first two digits make 256 parts."""
_EMPTY = "empty.parquet"
"""A part without rows: it gives the columns even if there is no other part."""
PER_TASK = 16
"""Files in one job for each of Spark's tasks: a job's results are held in memory."""


def query(name: str) -> str:
    """The text of the query *name*."""
    return (_TEXTS / f"{name}.sql").read_text()


def texts(**columns: Iterable[str]) -> pa.Table:
    """A table whose columns are text."""
    arrays = [pa.array(list(column), pa.string()) for column in columns.values()]
    return pa.table(arrays, names=list(columns))


def part_of(place: Path, file: str) -> list[Path]:
    """The Parquet files that `Engine.write_by_file` puts the rows of *file* into."""
    part = hashlib.md5(file.encode(), usedforsecurity=False).hexdigest()[:2]
    return [place / _EMPTY, *sorted((place / f"part={part}").glob("*.parquet"))]


def parts_of(place: Path) -> list[Path]:
    """The Parquet files with the rows of all files."""
    return [place / _EMPTY, *sorted(place.glob("part=*/*.parquet"))]


@contextmanager
def duckdb_engine(
    scratch: Path, memory: str = MEMORY, threads: int = 0
) -> Iterator[DuckDb]:
    """DuckDB in this process, which sorts in *scratch* above *memory*.

    It has *threads*, or as many as CPUs, but each has at least `PER_THREAD`.

    Raises:
        ConfigurationError: *memory* is not a size, or too small for a query.
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
            # Else it prints one among a command's results, if a query takes seconds.
            connection.execute("SET enable_progress_bar = false")
            _limit_threads(connection)
            yield DuckDb(connection)
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
    said = "SELECT current_setting('threads'), current_setting('memory_limit')"
    ((threads, limit),) = connection.execute(said).fetchall()
    number, _, unit = limit.partition(" ")  # as in 244.1 MiB
    power = ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit)
    most = int(float(number) * 1024**power) // PER_THREAD
    connection.execute(f"SET threads={max(1, min(threads, most))}")


@contextmanager
def duckdb_of_manifests(directory: Path) -> Iterator[DuckDb]:
    """DuckDB with all manifests in *directory* as ``manifest``; it sorts there, too.

    It sorts in a subdirectory of its own: several processes may do so at once.
    """
    with (
        tempfile.TemporaryDirectory(prefix="duckdb-", dir=directory) as scratch,
        duckdb_engine(Path(scratch)) as engine,
    ):
        if places := sorted(directory.glob(f"*{SUFFIX}")):
            engine.view("manifest", places)
        else:
            engine.table("manifest", SCHEMA.empty_table())
        yield engine


class DuckDb:
    """Runs queries in this process; naming a table or view again replaces it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def view(self, name: str, places: Sequence[Path]) -> None:
        """Name the rows of Parquet files."""
        self._connection.unregister(name)
        found = self._connection.read_parquet([os.fspath(place) for place in places])
        found.create_view(name, replace=True)

    def table(self, name: str, rows: pa.Table) -> None:
        """Name a few rows."""
        self._connection.register(name, rows)

    def rows(self, text: str) -> Iterator[tuple[Any, ...]]:
        """The rows that *text* asks for; take them all before the next query."""
        found = self._connection.execute(text)
        while some := found.fetchmany(FETCHED):
            yield from some

    def keep(self, name: str, text: str) -> None:
        """Run *text* once, and name its rows."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {text}")

    def write_by_file(self, text: str, place: Path) -> None:
        """Write the rows that *text* asks for to the directory *place*, and only these.

        They have a column *file*. The rows of one file are in the part that `part_of`
        names, in any order.
        """
        found = self._connection.sql(_PARTED.format(text))
        columns = self._connection.sql(text).limit(0)
        with _creating(place):
            found.write_parquet(
                os.fspath(place),
                compression="zstd",
                partition_by=["part"],
                overwrite=True,
            )
            columns.write_parquet(os.fspath(place / _EMPTY))


@contextmanager
def _creating(place: Path) -> Iterator[None]:
    """Make *place* an empty directory; what was written there then goes to disk."""
    mode = mode_of_environment()
    shutil.rmtree(place, ignore_errors=True)
    make_directory(place, mode)
    try:
        yield
        for part in parts_of(place):
            with part.open("rb") as file:  # engines do not know the mode
                os.fchmod(file.fileno(), os.fstat(file.fileno()).st_mode & mode)
                os.fsync(file.fileno())
            part.parent.chmod(place.stat().st_mode)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


@contextmanager
def spark_engine(master: str, _: Path) -> Iterator[Spark]:
    """Spark at *master*.

    Raises:
        ConfigurationError: PySpark is not installed, or does not find *master* or Java.
    """
    yield Spark(_session(master))


class Spark:
    """Runs queries elsewhere; its methods are those of `DuckDb`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def view(self, name: str, places: Sequence[Path]) -> None:
        """Name the rows of Parquet files."""
        paths = [f"file://{place.absolute()}" for place in places]  # as_uri escapes =
        self._session.read.parquet(*paths).createOrReplaceTempView(name)

    def table(self, name: str, rows: pa.Table) -> None:
        """Name a few rows."""
        frame = self._session.createDataFrame(rows)
        frame.createOrReplaceTempView(name)

    def rows(self, text: str) -> Iterator[tuple[Any, ...]]:
        """The rows that *text* asks for; take them all before the next query."""
        for row in self._session.sql(text).toLocalIterator():
            yield tuple(row)

    def write_by_file(self, text: str, place: Path) -> None:
        """Write the rows that *text* asks for to the directory *place*."""
        frame = self._session.sql(_PARTED.format(text)).repartition("part")
        writer = frame.write.partitionBy("part")
        schema = self._session.sql(text).limit(0).toArrow().schema
        with _creating(place):
            writer.parquet(place.absolute().as_uri(), mode="append", compression="zstd")
            pq.write_table(schema.empty_table(), place / _EMPTY)


Engine: TypeAlias = "DuckDb | Spark"


def spark_map(
    step: Callable[[Any], Any], given: Sequence[Any], master: str
) -> Iterator[Any]:
    """What *step* returns for each of *given*, computed by Spark at *master*.

    Raises:
        ConfigurationError: See `spark_engine`.
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
    mode = f"{mode_of_environment():o}"
    builder = builder.config(f"spark.executorEnv.{VARIABLE}", mode)
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
