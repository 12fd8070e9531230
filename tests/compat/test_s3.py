"""WARC files on S3, of a server that nobody here wrote: moto, in its own process."""

import os
import re
import subprocess
import sys

import pytest

from tests.postcrawl.conftest import PAGE, Written
from tests.postcrawl.test_dedupe import blocks, run, state

pytestmark = pytest.mark.compat
KEYS = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def s3():
    """A client of the server; commands find it by their environment."""
    import boto3

    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    pipe = {"stderr": subprocess.PIPE, "text": True}
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        subprocess.Popen(words, env=environment, **pipe) as server,
    ):
        for line in server.stderr:
            if found := re.search(r"Running on (http://\S+)", line):
                break
        monkeypatch.setenv("AWS_ENDPOINT_URL", found[1])
        for name, value in KEYS.items():
            monkeypatch.setenv(name, value)
        yield boto3.client("s3")
        server.terminate()
        server.stderr.close()


@pytest.fixture
def before(tmp_path):
    directory = tmp_path / "before"
    (directory / "deep").mkdir(parents=True)
    for name, second in (("one", 1), ("deep/two", 10)):
        warc = Written(directory / f"{name}.warc.gz")
        warc.response("http://a.example/", second, PAGE)
        warc.response("http://a.example/long", second, os.urandom(1 << 20))
        warc.close()
    return directory


def test_s3_bucket_is_deduplicated_verified_and_restored(s3, before, tmp_path):
    s3.create_bucket(Bucket="old")
    for path in before.rglob("*.gz"):
        s3.upload_file(str(path), "old", f"warcs/{path.relative_to(before)}")
    s3.put_object(Bucket="old", Key="warcs/notes.txt", Body=b"none")
    out, again = tmp_path / "out", tmp_path / "again"

    done = run("dedupe", "s3://old/warcs", "-o", out, "--workers=2")

    assert (done["files"], done["replaced"], done["files_left"]) == (2, 1, [])
    run("dedupe", before, "-o", tmp_path / "here")
    for deep in ("", "deep"):
        assert state(out / deep) == state(tmp_path / "here" / deep)
    assert run("verify", "s3://old/warcs", out)["faults"] == 0
    for path in out.rglob("*.gz"):
        s3.upload_file(str(path), "old", f"new/{path.relative_to(out)}")
    words = ["--originals", "s3://old/new/one.warc.gz", "-o", again]
    assert run("restore", "s3://old/new/deep", *words)["replaced"] == 1
    assert blocks(again) == blocks(before / "deep")


def test_replaced_or_missing_s3_object_is_named(s3, before, tmp_path):
    s3.create_bucket(Bucket="gone")
    for path in before.rglob("*.gz"):
        s3.upload_file(str(path), "gone", path.name)
    urls = ["s3://gone/one.warc.gz", "s3://gone/two.warc.gz"]
    run("manifest", *urls, "-o", tmp_path / "m")
    run("plan", tmp_path / "m")
    s3.delete_object(Bucket="gone", Key="one.warc.gz")
    s3.put_object(Bucket="gone", Key="two.warc.gz", Body=bytes(10))

    done = run("apply", tmp_path / "m", "-o", tmp_path / "out", code=6)

    first, second = sorted(done["files_left"])
    assert first == f"{urls[0]}: there is no such file"
    assert second.startswith(urls[1])
    assert not list(tmp_path.glob("out/*.gz"))
