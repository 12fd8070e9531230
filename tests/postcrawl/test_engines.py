"""Spark and DuckDB make the same of the same collection, through the command line."""

import hashlib
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pyarrow.parquet as pq
import pytest

from frontier.errors import ConfigurationError
from frontier.postcrawl.engines import duckdb_engine
from tests.collection.conftest import index, make_index
from tests.postcrawl.conftest import OTHER, PAGE, Written

__all__ = ("index", "make_index")


@pytest.fixture
def collection(new_warc, before):
    """Beside `before`: revisits, names of two payloads, and ends of URLs alike."""
    third = new_warc("three.warc.gz")
    third.response("http://c.example/a/index.html", 1, PAGE)
    third.response("http://c.example/b/index.html", 1, OTHER)
    third.response("http://c.example/twice", 20, PAGE)
    third.response("http://c.example/twice", 20, OTHER)
    third.response("http://c.example/post", 22, PAGE, status="404 Not Found")
    third.response("http://c.example/é", 23, PAGE)
    third.revisit("http://a.example/", 30, "sha1:" + "A" * 32, "http://a.example/", 10)
    third.close()
    return before


def dedupe(collection, out, *words):
    """As one command: a JVM starts once."""
    command = [sys.executable, "-m", "frontier", "warc", "dedupe", str(collection)]
    options = ["--json", "--workers=2", "--prefer=same-url", "--compare=always"]
    done = subprocess.run(
        [*command, "-o", str(out), *options, *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def found(out):
    """The rows of the plan as JSON lines, and a digest of each file that was made."""
    rows = pq.read_table(out / "manifests" / "plan.parquet")
    lines = [json.dumps(row, sort_keys=True) for row in rows.to_pylist()]
    made = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.iterdir()
        if path.is_file()
    }
    return lines, made


@pytest.mark.compat
@pytest.mark.skipif(find_spec("pyspark") is None, reason="needs pyspark, of compat")
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17 or newer")
def test_spark_and_duckdb_make_the_same_plan_and_the_same_files(
    collection, index, tmp_path
):
    (tmp_path / "crawls").mkdir()
    crawled = Written(tmp_path / "crawls" / "crawl.warc.gz")
    crawled.response("http://d.example/", 5, OTHER)
    index.put(crawled.close(), crawl_id="crawl-1")
    known = (
        *("--collection", index.name, "--redis-url", index.url),
        *("--originals", str(tmp_path / "crawls")),
    )
    ours = dedupe(collection, tmp_path / "duckdb", *known)
    theirs = dedupe(
        collection, tmp_path / "spark", *known, "--engine=spark", "--master=local[2]"
    )

    lines, files = found(tmp_path / "duckdb")
    assert ours["replaced"] == theirs["replaced"] == len(lines) > 3
    assert ours["indexed"] == theirs["indexed"] == 1
    assert any("http://d.example/" in line for line in lines)
    assert found(tmp_path / "spark") == (lines, files)
    assert sum(name.endswith(".cdxj") for name in files) == 3
    assert not list((tmp_path / "spark" / "manifests").glob("spark-parts*"))


def test_duckdb_sorts_on_disk_above_its_limit_of_memory(tmp_path):
    text = "SELECT i, sha256(i::TEXT) AS d FROM range(1_000_000) t(i) ORDER BY d"
    with duckdb_engine(tmp_path, "48MB", 1) as engine:
        engine.write(text, tmp_path / "sorted.parquet")

    assert pq.read_metadata(tmp_path / "sorted.parquet").num_rows == 1_000_000


def test_each_thread_of_duckdb_has_enough_of_the_memory(tmp_path):
    made = []
    for memory, threads in (("64MB", 16), ("256MB", 16), ("256MB", 1), ("4GB", 16)):
        with duckdb_engine(tmp_path, memory, threads) as engine:
            made += engine.rows("SELECT current_setting('threads')")

    assert made == [(1,), (2,), (1,), (16,)]


def test_duckdb_sorts_a_plan_by_parts_of_files_in_little_memory(tmp_path):
    rows = "SELECT 'file ' || i % 50 AS file, i AS record_offset, sha256(i::TEXT) AS d"
    text = f"{rows} FROM range(300_000) t(i)"
    with duckdb_engine(tmp_path, "1GB", 1) as engine:
        engine.write(text, tmp_path / "manifest.parquet")
    written = []
    for memory in ("1GB", "48MB"):
        with duckdb_engine(tmp_path, memory, 1) as engine:
            engine.view("manifest", [tmp_path / "manifest.parquet"])
            of = "SELECT * FROM manifest WHERE record_offset % 3 > 0"
            engine.write_by_file(of, tmp_path / memory)
            engine.write_by_file(f"{of} AND FALSE", tmp_path / "none")
        written.append(pq.read_table(tmp_path / memory))

    at_once, by_parts = written
    assert at_once.to_pydict() == by_parts.to_pydict()
    assert at_once.num_rows == 200_000
    assert at_once == at_once.sort_by(
        [("file", "ascending"), ("record_offset", "ascending")]
    )
    assert pq.read_table(tmp_path / "none").schema == by_parts.schema
    assert pq.read_metadata(tmp_path / "48MB").num_row_groups > 1
    assert not (tmp_path / "duckdb-parts").exists()


def test_what_is_no_size_of_memory_is_refused(tmp_path):
    with (
        pytest.raises(ConfigurationError, match="--memory 'much'"),
        duckdb_engine(tmp_path, "much"),
    ):
        pass


def test_a_query_that_needs_more_memory_is_told(tmp_path):
    text = "SELECT list(i) AS d FROM range(1_000_000) t(i)"  # one row, not on disk
    with (
        pytest.raises(ConfigurationError, match="--memory 2MB: Out of Memory"),
        duckdb_engine(tmp_path, "2MB", 1) as engine,
    ):
        engine.write(text, tmp_path / "all.parquet")
