import threading
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from frontier.errors import ConfigurationError
from frontier.warc import upload
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.upload import Uploader
from tests.warc.samples import an_exchange, names
from tests.warc.test_file_rotation import NAME, append


@pytest.fixture
def storage():
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield MemoryFileSystem()
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def a_closed_file(writer):
    append(writer, an_exchange())
    writer.close()
    return (writer.config.directory / NAME).read_bytes()


def test_a_file_is_sent_when_it_is_closed(new_writer, tmp_path, storage):
    uploader = Uploader("memory://bucket/a", tmp_path)
    writer = new_writer(closed=uploader.add)
    append(writer, an_exchange())
    writer.sync()
    assert not storage.exists("/bucket/a")

    writer.close()
    uploader.close()
    assert uploader.left == []
    assert storage.cat(f"/bucket/a/{NAME}") == (tmp_path / NAME).read_bytes()


def test_the_start_sends_what_is_missing_and_nothing_else(writer, tmp_path, storage):
    data = a_closed_file(writer)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / f"{NAME}.open").write_text("being written")
    storage.pipe(f"/bucket/{NAME}", data[:-1])  # cut by a dead node
    first = Uploader("memory://bucket", tmp_path)
    first.close()
    second = Uploader("memory://bucket", tmp_path)
    second.close()

    assert storage.cat(f"/bucket/{NAME}") == data
    assert [path.rpartition("/")[2] for path in storage.ls("/bucket", False)] == [NAME]
    assert (first.sent, second.sent) == (1, 0)


def test_an_index_goes_with_its_file_and_before_it(
    new_writer, tmp_path, storage, monkeypatch
):
    order = []
    put = MemoryFileSystem.put_file

    def noted(self, local, remote, **kwargs):
        order.append(Path(remote).name)
        put(self, local, remote, **kwargs)

    monkeypatch.setattr(MemoryFileSystem, "put_file", noted)
    data = a_closed_file(new_writer(listing=Listing()))
    index = beside_of(tmp_path / NAME)
    lines = index.read_bytes()
    uploader = Uploader("memory://me:hush@bucket", tmp_path, remove=True)
    uploader.close()

    assert order == [index.name, NAME]
    assert lines
    sent = {Path(place).name: storage.cat(place) for place in storage.find("/")}
    assert sent == {NAME: data, index.name: lines}
    assert names(tmp_path) == []


def test_failed_upload_is_retried_and_reported_once(
    writer, tmp_path, storage, monkeypatch, caplog
):
    data = a_closed_file(writer)
    monkeypatch.setattr(upload, "FIRST_DELAY", 1e-4)
    monkeypatch.setattr(upload, "LONGEST_DELAY", 1e-4)
    tries = []
    sent = threading.Event()
    put = MemoryFileSystem.put_file

    def fails_at_first(self, *args, **kwargs):
        tries.append(args)
        if len(tries) < 1_100:  # 18 hours of failures
            raise PermissionError("no key")
        put(self, *args, **kwargs)
        sent.set()

    monkeypatch.setattr(MemoryFileSystem, "put_file", fails_at_first)
    uploader = Uploader("memory://bucket", tmp_path, remove=True)
    assert sent.wait(120)
    uploader.close()
    assert uploader.left == []

    assert storage.cat(f"/bucket/{NAME}") == data
    assert [r for r in caplog.messages if "no key" in r] == [caplog.messages[0]]
    assert NAME in caplog.messages[0]


@pytest.mark.parametrize("arrives", [False, True])
def test_a_file_of_which_not_all_arrives_is_kept_and_reported(
    writer, tmp_path, storage, monkeypatch, caplog, arrives
):
    a_closed_file(writer)
    put = MemoryFileSystem.put_file

    def fails(self, local, remote, **kwargs):
        if not arrives:
            raise OSError("away")
        put(self, local, remote, **kwargs)
        self.pipe(remote, self.cat(remote)[:-1])

    monkeypatch.setattr(MemoryFileSystem, "put_file", fails)
    uploader = Uploader("memory://me:hush@bucket/a?key=hush", tmp_path, remove=True)
    uploader.close()

    assert uploader.left == [tmp_path / NAME]
    assert names(tmp_path) == [NAME]
    assert NAME in caplog.messages[-1]
    assert "memory://bucket/a" in caplog.text
    assert "hush" not in caplog.text


@pytest.mark.parametrize("url", ["nosuch://bucket", "oci+odd://bucket"])
def test_a_storage_that_is_not_installed_is_an_error_of_the_settings(tmp_path, url):
    with pytest.raises(ConfigurationError, match="FRONTIER_WARC_UPLOAD"):
        Uploader(url, tmp_path)
