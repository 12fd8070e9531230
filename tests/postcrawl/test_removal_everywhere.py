"""Captures leave WACZ files and the index of a collection, too."""

import json
import shutil
import zipfile

import pytest

from frontier.cli.output import ExitCode
from frontier.dedupe.digest import spelled
from frontier.errors import CollectionInUse
from frontier.files import rewriting
from frontier.postcrawl.working_directory import BESIDE
from frontier.store.client import Call
from frontier.wacz.check import check
from frontier.wacz.create import Options, create
from tests.collection.conftest import index, make_index
from tests.harness import commands
from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import blocks, revisits, run, sha1
from tests.postcrawl.test_removal import everything
from tests.warc.samples import inside

__all__ = ("index", "make_index")
TARGET = "http://a.example/"


@pytest.fixture
def package(before, tmp_path):
    """A collection of a WACZ with the first file, and of the second beside it."""
    files, log = tmp_path / "collection", tmp_path / "crawl.log"
    run("dedupe", before, "-o", files)
    shutil.rmtree(files / "manifests")
    log.write_text(f"fetched {TARGET}\n")
    made = Options(title="A title", logs=[log], created=1_600_000_000)
    create(files / "one.wacz", [files / "one.warc.gz"], made)
    for path in files.glob("one.*z"):
        if path.suffix != ".wacz":
            path.unlink()
    (files / "one.cdxj").unlink()
    return files


def test_a_capture_leaves_a_wacz_and_its_index_and_pages(package, tmp_path):
    was = inside(package / "one.wacz")
    assert TARGET.encode() in was["pages/pages.jsonl"]

    done = run("remove", package, "--url", TARGET, "--yes")

    assert (len(done["records"]), done["dependent"]) == (2, 1)
    wacz = package / "one.wacz"
    assert done["records"][0]["file"] == f"{wacz}: archive/one.warc.gz"
    assert check(wacz) == []
    now = inside(wacz)
    assert now.keys() == was.keys()
    assert f'"url": "{TARGET}"'.encode() not in now["pages/pages.jsonl"]
    assert b"http://a.example/other" in now["pages/pages.jsonl"]
    assert json.loads(now["datapackage.json"])["title"] == "A title"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one.warc.gz").write_bytes(now["archive/one.warc.gz"])
    assert PAGE not in everything(tmp_path / "out")
    assert PAGE in everything(package)  # of http://b.example/
    assert list(package.glob("*.open")) == []
    assert not (package / BESIDE).exists()


def test_a_revisit_in_a_wacz_is_restored_before_its_original_leaves(before, tmp_path):
    files = tmp_path / "collection"
    run("dedupe", before, "-o", files)
    shutil.rmtree(files / "manifests")
    two = files / "two.warc.gz"
    create(files / "two.wacz", [two], Options())
    two.unlink()

    done = run("remove", files, "--url", TARGET, "--yes")

    assert (len(done["records"]), done["dependent"]) == (2, 1)
    assert check(files / "two.wacz", [])[1:] == []  # OTHER is in one.warc.gz
    (files / "two.warc.gz").write_bytes(
        inside(files / "two.wacz")["archive/two.warc.gz"]
    )
    assert revisits(files) == {
        ("http://b.example/other", date(13)): ("http://a.example/other", date(2))
    }
    stayed = {record_id for record_id, _ in blocks(before)} & {
        record_id for record_id, _ in blocks(files)
    }
    assert len(stayed) == len(blocks(before)) - 3


def test_a_wacz_without_warc_files_has_nothing_to_remove(tmp_path):
    with zipfile.ZipFile(tmp_path / "one.wacz", "w") as archive:
        archive.writestr("datapackage.json", "{}")

    run("remove", tmp_path, "--url", "http://a.example/", code=ExitCode.NOT_FOUND)


def test_a_wacz_that_another_process_writes_stays_and_is_named(package):
    wacz = package / "one.wacz"
    was = wacz.read_bytes()
    with rewriting(wacz, 0o640):
        words = ["remove", package, "--url", TARGET, "--yes"]
        done = run(*words, code=ExitCode.INCOMPLETE)

    assert f"{wacz}: another process writes {wacz}" in done["files_left"]
    assert wacz.read_bytes() == was


def test_unreadable_wacz_stops_the_removal(package):
    wacz = package / "one.wacz"
    data = bytearray(wacz.read_bytes())
    data[400] ^= 0xFF
    wacz.write_bytes(data)
    was = {path.name: path.read_bytes() for path in package.iterdir()}

    done = run("remove", package, "--url", TARGET, "--yes", code=ExitCode.INCOMPLETE)

    assert done["records"] == []
    assert "one.wacz" in str(done["files_left"])
    assert {path.name: path.read_bytes() for path in package.iterdir()} == was


@pytest.mark.parametrize("name", ["logs/crawl.log", "datapackage.json"])
def test_a_wacz_that_cannot_be_made_again_stays_and_is_named(package, name):
    wacz = package / "one.wacz"
    with zipfile.ZipFile(wacz) as archive:
        info = archive.getinfo(name)
    data = bytearray(wacz.read_bytes())
    data[info.header_offset + 30 + len(name) + 3] ^= 0xFF
    wacz.write_bytes(data)

    done = run("remove", package, "--url", TARGET, "--yes", code=ExitCode.INCOMPLETE)

    assert [one["type"] for one in done["records"]] == ["revisit"]
    assert "one.wacz: not a sound zip file" in str(done["files_left"])
    assert wacz.read_bytes() == data
    assert list(package.glob("*.open")) == []


def key(payload):
    return spelled(sha1(payload))


@pytest.fixture
def collection(index, new_warc):
    """Two crawls that have one payload, in the index as crawls are."""
    first = new_warc("one.warc.gz")
    first.response(TARGET, 1, PAGE)
    first.response(f"{TARGET}other", 2, OTHER)
    index.put(first.close(), crawl_id="crawl-1")
    second = new_warc("two.warc.gz")
    second.response("http://b.example/", 11, PAGE)
    index.put(second.close(), crawl_id="crawl-2")
    return index


def words(index, before):
    return [
        *(before, "--url", TARGET),
        *("--collection", index.name, "--redis-url", index.url),
    ]


def test_the_index_leads_to_another_crawl_that_has_the_payload(
    collection, before_files
):
    index = collection
    assert index.hash(index.keys.alldupes)[key(PAGE)] == "crawl-1"

    told = run("remove", *words(index, before_files), code=ExitCode.USAGE)
    assert (told["index_entries"], len(told["records"])) == (1, 1)
    assert index.hash(index.keys.alldupes)[key(PAGE)] == "crawl-1"
    done = run("remove", *words(index, before_files), "--yes")

    assert (done["index_entries"], len(done["records"])) == (1, 1)
    assert index.hash(index.keys.alldupes) == {
        key(PAGE): "crawl-2",
        key(OTHER): "crawl-1",
    }
    assert set(index.hash(index.keys.crawl("crawl-1"))) == {key(OTHER)}
    assert index.run("check")[0] == 0
    given = *words(index, before_files), "--yes"
    again = run("remove", *given, code=ExitCode.NOT_FOUND)
    assert (again["index_entries"], again["records"]) == (0, [])


@pytest.fixture
def before_files(tmp_path):
    return tmp_path / "before"


def test_a_payload_that_no_other_crawl_has_leaves_the_index(collection, before_files):
    index = collection
    index("HDEL", index.keys.crawl("crawl-2"), key(PAGE))

    run("remove", *words(index, before_files), "--yes")

    assert key(PAGE) not in index.hash(index.keys.alldupes)
    assert index.run("check")[0] == 0


def test_a_single_record_leaves_the_index_and_others_of_its_url_stay(
    collection, before_files
):
    index = collection
    ids = [record_id for record_id, _ in blocks(before_files)]

    done = run(
        *("remove", before_files, "--record", ids[1], "--yes"),
        *("--collection", index.name, "--redis-url", index.url),
    )

    assert (done["index_entries"], len(done["records"])) == (1, 1)


def test_by_a_url_and_of_conditional_requests_it_is_forgotten(collection, before_files):
    index = collection
    value = f"0 20200101000001 {TARGET} 200"
    past = {"url": TARGET, "crawl": "crawl-1", "original": value}
    other = {"url": f"{TARGET}x", "crawl": "crawl-1", "original": f"{value}".replace(
        f"{TARGET} ", f"{TARGET}x ")}  # fmt: skip
    index("HSET", index.keys.urls, "url:1", f"crawl-1 20200101000001 {TARGET} 9")
    index("HSET", index.keys.urls, "url:2", "crawl-1 20200101000001 http://c/ 9")
    index("HSET", index.keys.history, "url:3", json.dumps(past))
    index("HSET", index.keys.history, "url:4", json.dumps(other))

    done = run("remove", *words(index, before_files), "--yes")

    assert done["index_entries"] == 3
    assert set(index.hash(index.keys.urls)) == {"url:2"}
    assert set(index.hash(index.keys.history)) == {"url:4"}


def test_removal_is_refused_while_a_crawl_of_the_collection_runs(
    collection, before_files
):
    index = collection
    index.store.call(Call.command("SADD", index.keys.uncommitted, "crawl-3"))
    was = {path.name: path.read_bytes() for path in before_files.iterdir()}
    entries = index.everything()

    argv = ["warc", "remove", *words(index, before_files), "--yes", "--workers=1"]
    done = commands.run(*argv)

    assert done.returncode == CollectionInUse.code, done.stderr
    assert index.everything() == entries
    assert {path.name: path.read_bytes() for path in before_files.iterdir()} == was
