"""What is not as it should be is named, left as it was, and the rest goes on."""

import fcntl
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

from frontier.cli.output import ExitCode
from frontier.postcrawl import rewriting
from frontier.postcrawl.manifest import ENDS, require_current
from tests.harness.commands import output_of
from tests.postcrawl.conftest import OTHER, PAGE
from tests.postcrawl.test_dedupe import run, state


def longer(path):
    path.write_bytes(path.read_bytes() + b"\0")


@pytest.mark.parametrize("change", [Path.unlink, longer])
def test_an_original_whose_file_is_not_what_it_was(before, planned, change):
    change(before / "one.warc.gz")
    was = state(before)

    done = run("apply", planned, "--in-place", code=ExitCode.INCOMPLETE)

    assert ["one.warc.gz" in reason for reason in done["files_left"]] == [True]
    # Copies of what it had stay, each named with its place.
    where = f"{before / 'two.warc.gz'}: the record at byte "
    assert len(done["records_left"]) == 3
    assert all(reason.startswith(where) for reason in done["records_left"])
    assert state(before) == {"two.cdxj": state(before)["two.cdxj"]} | was


@pytest.mark.parametrize("change", ["time", "first", "last", "size"])
def test_a_file_that_is_another_than_its_manifest_says(before, planned, change):
    path = before / "two.warc.gz"
    data = bytearray(path.read_bytes())
    stat = path.stat()
    if change in {"first", "last"}:
        data[20 if change == "first" else -20] ^= 1
    path.write_bytes(data + b"\0" if change == "size" else data)
    later = 1 if change == "time" else 0
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + later))
    was = path.read_bytes()

    done = run("apply", planned, "--in-place", code=ExitCode.INCOMPLETE)

    assert ["has changed since its manifest" in why for why in done["files_left"]] == [
        True
    ]
    assert (path.read_bytes(), done["written"]) == (was, 1)


def padded(member):
    """The gzip *member* with ten more bytes in its head."""
    return member[:3] + b"\4" + member[4:10] + b"\x0a\0" + bytes(10) + member[10:]


def test_a_record_that_has_another_length_than_was_planned_stays(new_warc, tmp_path):
    warc, draw = new_warc("one.warc.gz"), random.Random(7)
    for second, body in enumerate(
        [draw.randbytes(ENDS), PAGE, PAGE, draw.randbytes(ENDS)]
    ):
        warc.response(f"http://a.example/{second}", second, body)
    path, manifests = warc.close(), tmp_path / "manifests"
    members, rest = [], path.read_bytes()
    while rest:
        inflate = zlib.decompressobj(31)
        inflate.decompress(rest)
        members.append(rest[: len(rest) - len(inflate.unused_data)])
        rest = inflate.unused_data
    *first, copy, last = members
    path.write_bytes(b"".join([*first, copy, padded(last)]))
    run("manifest", path, "-o", manifests)
    assert run("plan", manifests)["copies"] == 1
    at = path.stat().st_mtime_ns
    path.write_bytes(b"".join([*first, padded(copy), last]))
    os.utime(path, ns=(at, at))

    done = run("apply", manifests, "-o", tmp_path / "after", code=ExitCode.INCOMPLETE)

    assert ["not the response planned" in why for why in done["records_left"]] == [True]
    assert (tmp_path / "after" / path.name).read_bytes() == path.read_bytes()


def test_a_file_that_is_cut_while_it_is_read_is_left_alone(
    planned, tmp_path, monkeypatch
):
    def current(manifest):
        require_current(manifest)
        os.truncate(manifest.file, manifest.size - 1)

    monkeypatch.setattr(rewriting, "require_current", current)

    done = run("apply", planned, "-o", tmp_path / "after", code=ExitCode.INCOMPLETE)

    assert ["become shorter" in why for why in done["files_left"]] == [True, True]
    assert not list((tmp_path / "after").glob("*.warc.gz"))


def limited(words, size):
    """Run a command that can write no file of more than *size* bytes."""
    code = "from frontier.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, "warc", *map(str, words), "--workers=1"],
        check=False,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


def test_a_disk_that_is_full(before, new_warc, tmp_path):
    """A file of random bytes, which do not get smaller, beside two small ones."""
    large = new_warc("large.warc.gz")
    large.response("http://l.example/", 30, os.urandom(200_000))
    large.response("http://l.example/", 31, PAGE)
    large.close()
    manifests, out = tmp_path / "manifests", tmp_path / "after"
    run("manifest", before, "-o", manifests)
    run("plan", manifests)
    was = state(before)

    done = limited(["apply", manifests, "-o", out], 100_000)

    assert done.returncode == ExitCode.INCOMPLETE, done.stderr
    assert f"{before / 'large.warc.gz'}" in done.stderr
    assert "File too large" in done.stderr
    assert sorted(path.name for path in out.iterdir()) == [
        "one.cdxj",
        "one.warc.gz",
        "two.cdxj",
        "two.warc.gz",
    ]
    in_place = limited(["apply", manifests, "--in-place"], 100_000)
    assert in_place.returncode == ExitCode.INCOMPLETE
    assert state(before)["large.warc.gz"] == was["large.warc.gz"]
    assert not list(before.glob("*.open"))
    # With room again it goes on.
    assert run("apply", manifests, "--in-place")["replaced"] == 4


def test_a_disk_that_is_full_of_manifests(before, tmp_path):
    """Nothing half written is left to take room."""
    manifests = tmp_path / "manifests"
    done = limited(["manifest", before, "-o", manifests], 1_000)

    assert done.returncode == ExitCode.INCOMPLETE
    for name in ("one", "two"):
        assert f"{before / name}.warc.gz: {manifests / name}.warc.gz" in done.stderr
    assert not list(manifests.iterdir())
    run("manifest", before, "-o", manifests)
    was = set(manifests.iterdir())
    done = limited(["plan", manifests], 1_000)
    assert (done.returncode, done.stdout) == (ExitCode.UNWRITABLE, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"frontier: {manifests}")
    assert set(manifests.iterdir()) == was
    assert run("plan", manifests)["copies"] == 3


@pytest.fixture
def as_nobody():
    """Permissions hold for root too; yields a directory that everybody can enter."""
    directory = Path(tempfile.mkdtemp(prefix="frontier-postcrawl-"))
    directory.chmod(0o755)
    yield directory
    os.seteuid(os.getuid())
    shutil.rmtree(directory)


def test_a_directory_that_is_read_only(before, as_nobody):
    files, manifests = as_nobody / "files", as_nobody / "manifests"
    shutil.copytree(before, files)
    sub = files / "locked"
    sub.mkdir()
    shutil.copy(before / "two.warc.gz", sub / "locked.warc.gz")
    run("manifest", files, sub, "-o", manifests)
    run("plan", manifests)
    if os.getuid() == 0:
        for path in [files, manifests, *files.iterdir(), *manifests.iterdir()]:
            os.chown(path, 65534, 65534)
    sub.chmod(0o555)
    was = state(sub)
    if os.getuid() == 0:
        os.seteuid(65534)

    done = run("apply", manifests, "--in-place", code=ExitCode.INCOMPLETE)

    assert [str(sub) in reason for reason in done["files_left"]] == [True]
    assert "Permission denied" in done["files_left"][0]
    assert (done["written"], state(sub)) == (2, was)


def test_records_that_claim_nothing_or_nonsense(new_warc, tmp_path):
    """No digest is no obstacle; one that cannot be checked is told."""
    warc = new_warc("one.warc", packed=False)
    for second in range(1, 4):
        warc.response(f"http://a.example/{second}", second, PAGE)
        warc.response(f"http://b.example/{second}", second + 10, OTHER)
    path = warc.close()
    data = path.read_bytes().split(b"WARC-Payload-Digest: sha1:")
    nonsense = [b"WARC-Payload-Digest: sha0:" + part for part in data[5:]]
    path.write_bytes(b"WARC-Payload-Nothing: sha1:".join(data[:5]) + b"".join(nonsense))
    before, out = tmp_path / "before", tmp_path / "after"

    done = run("dedupe", before, "-o", out)

    assert (done["copies"], done["wrong"]) == (2, 2)
    assert run("verify", before, out)["faults"] == 0


def test_a_file_that_another_command_writes_is_left_alone(before, planned):
    """As of a second plan of it, in another directory."""
    was = state(before)
    scratch = before / "two.warc.gz.open"
    with scratch.open("wb") as theirs:
        theirs.write(b"half of it")
        theirs.flush()
        fcntl.flock(theirs, fcntl.LOCK_EX)

        done = run("apply", planned, "--in-place", code=ExitCode.INCOMPLETE)

        assert done["files_left"] == [
            f"another process writes {before / 'two.warc.gz'}"
        ]
        assert scratch.read_bytes() == b"half of it"
    scratch.unlink()
    assert state(before)["two.warc.gz"] == was["two.warc.gz"]
    scratch.write_bytes(b"what a killed one has left")
    assert run("apply", planned, "--in-place")["replaced"] == 3
    assert not scratch.exists()


def test_without_the_extra_there_is_one_line(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['duckdb'] = None;"
        "import importlib.util as u; f = u.find_spec;"
        "u.find_spec = lambda n, *a: None if n in {'pyarrow', 'duckdb'} else f(n, *a);"
        "from click.testing import CliRunner; from frontier.cli import app;"
        "[print(CliRunner().invoke(app, words.split()).exception)"
        " for words in sys.argv[1:]]"
    )
    given, out = str(tmp_path), f"{tmp_path} -o {tmp_path}/out"
    words = [
        *(f"warc {verb} {out}" for verb in ("manifest", "dedupe", "convert")),
        f"warc restore {out}",
        f"warc plan {given}",
        f"warc apply {out}",
        f"warc verify {given} {given}",
        f"warc remove {given} --url http://a.example/",
    ]
    said = output_of([sys.executable, "-c", code, *words])

    line = (
        "this needs duckdb and pyarrow; install them with: "
        "pip install 'frontier-crawl[postcrawl]'"
    )
    assert said.splitlines() == [line] * len(words)
