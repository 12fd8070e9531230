"""Spark and DuckDB make the same of the same collection, through the command line."""

import hashlib
import json
import shutil
import sys
from importlib.util import find_spec

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from frontier.errors import ConfigurationError
from frontier.postcrawl.engines import (
    duckdb_engine,
    part_of,
    parts_of,
)
from tests.harness.commands import output_of
from tests.postcrawl.conftest import OTHER, PAGE, Written


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
    options = ["--json", "--workers=2"]
    return json.loads(output_of([*command, "-o", str(out), *options, *words]))


def found(out):
    """The rows of the plan as JSON lines, and a digest of each file that was made."""
    rows = pq.read_table(out / "manifests" / "plan.parquet")
    lines = sorted(json.dumps(row, sort_keys=True) for row in rows.to_pylist())
    made = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.iterdir()
        if path.is_file()
    }
    return lines, made


@pytest.mark.compat
@pytest.mark.skipif(find_spec("pyspark") is None, reason="needs pyspark, of compat")
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17 or newer")
def test_spark_and_duckdb_make_the_same_plan_and_the_same_files(collection, tmp_path):
    (tmp_path / "crawls").mkdir()
    crawled = Written(tmp_path / "crawls" / "crawl.warc.gz")
    crawled.response("http://d.example/", 5, OTHER)
    crawled.close()
    known = ("--originals", str(tmp_path / "crawls"))
    ours = dedupe(collection, tmp_path / "duckdb", *known)
    theirs = dedupe(
        collection, tmp_path / "spark", *known, "--engine=spark", "--master=local[2]"
    )

    lines, files = found(tmp_path / "duckdb")
    assert ours["replaced"] == theirs["replaced"] == len(lines) > 3
    assert any("http://d.example/" in line for line in lines)
    assert found(tmp_path / "spark") == (lines, files)
    assert sum(name.endswith(".cdxj") for name in files) == 3


def test_duckdb_prints_no_bar_of_its_own_among_results(tmp_path):
    """It prints one on stdout when a query takes two seconds."""
    with duckdb_engine(tmp_path) as engine:
        (bar,) = engine.rows("SELECT current_setting('enable_progress_bar')")

    assert bar == (False,)


@pytest.mark.long
def test_duckdb_puts_the_rows_of_a_file_together_in_little_memory(tmp_path):
    """Where its memory is too small to have them all."""
    place = tmp_path / "rows"
    rows = "SELECT 'file ' || i % 5000 AS file, i, sha256(i::TEXT) AS d, sha256(d) AS e"
    with duckdb_engine(tmp_path, "128MB", 1) as engine:
        for text, count in ((rows, 1_000_000), (f"{rows} WHERE i < 0", 0)):
            made = text.replace(" WHERE", f" FROM range({count}) t(i) WHERE")
            made = made if count == 0 else f"{text} FROM range({count}) t(i)"
            engine.write_by_file(made, place)
            found = pq.read_table(part_of(place, "file 7"), partitioning=None)
            of_it = found.filter(pc.equal(found["file"], "file 7"))
            assert sorted(of_it["i"].to_pylist()) == list(range(7, count, 5000))
            assert len(found) < count / 100 or not count
            assert all(path.stat().st_mode & 0o777 == 0o640 for path in parts_of(place))


def test_invalid_memory_size_is_refused(tmp_path):
    with (
        pytest.raises(ConfigurationError, match="--memory 'much'"),
        duckdb_engine(tmp_path, "much"),
    ):
        pass


def test_duckdb_out_of_memory_is_reported_with_the_memory_option(tmp_path):
    text = "SELECT list(i) AS d FROM range(1_000_000) t(i)"  # one row, not on disk
    with (
        pytest.raises(ConfigurationError, match="--memory 2MB: Out of Memory"),
        duckdb_engine(tmp_path, "2MB", 1) as engine,
    ):
        list(engine.rows(text))
