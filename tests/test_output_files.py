import os
import stat

import pytest

from frontier.errors import ConfigurationError, FileInUse
from frontier.files import (
    FILE_MODE,
    creating,
    make_directory,
    mode_of,
    mode_of_environment,
    publish,
    published,
)


@pytest.fixture
def umask():
    before = os.umask(0)
    yield os.umask
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_file_mode_applies_to_files_and_directories(umask, tmp_path):
    make_directory(tmp_path / "a" / "b", 0o640)
    with open(tmp_path / "a" / "b" / "c", "wb", opener=creating(0o640)):
        pass

    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [
        0o750,
        0o750,
        0o640,
    ]


def test_umask_is_respected_and_existing_modes_are_kept(umask, tmp_path):
    (tmp_path / "there").mkdir(0o777)
    umask(0o077)

    make_directory(tmp_path / "there", 0o644)
    with open(tmp_path / "there" / "a", "wb", opener=creating(0o644)):
        pass

    assert mode(tmp_path / "there") == 0o777
    assert mode(tmp_path / "there" / "a") == 0o600


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path):
    (tmp_path / "a").touch()

    with pytest.raises(OSError, match="exists"):
        make_directory(tmp_path / "a", 0o640)


@pytest.mark.parametrize(
    ("text", "made"), [("0640", 0o640), ("644", 0o644), ("0o600", 0o600)]
)
def test_file_modes_are_octal(text, made):
    assert mode_of(text) == made


@pytest.mark.parametrize("text", ["", "9", "0o", "rw", "1200", "0400", "0750", "00640"])
def test_invalid_file_modes_are_refused(text):
    with pytest.raises(ValueError, match="must be"):
        mode_of(text)


def test_commands_take_the_file_mode_from_the_environment(monkeypatch):
    monkeypatch.delenv("FRONTIER_FILE_MODE", raising=False)
    assert mode_of_environment() == FILE_MODE
    monkeypatch.setenv("FRONTIER_FILE_MODE", "0600")
    assert mode_of_environment() == 0o600
    monkeypatch.setenv("FRONTIER_FILE_MODE", "x")
    with pytest.raises(ConfigurationError, match="FRONTIER_FILE_MODE = 'x'"):
        mode_of_environment()


def test_publishing_a_file_excludes_other_writers_and_outlives_a_kill(umask, tmp_path):
    """Two would write to one scratch file, which the first gives its name."""
    place = tmp_path / "a"
    with published(place, 0o640) as file:
        file.write(b"whole")
        with pytest.raises(FileInUse, match="another process writes"):
            publish(place, b"of the other")
        assert not place.exists()
    assert (place.read_bytes(), mode(place)) == (b"whole", 0o640)

    (tmp_path / "a.open").write_bytes(b"longer than what comes next")
    publish(place, b"next")

    assert place.read_bytes() == b"next"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
