import os

import pytest

from frontier.files import descriptor_of, open_input, read_input


def test_a_named_symlink_is_followed(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to("a")

    with open_input(tmp_path / "b") as file:
        assert file.read() == b"text"
    with pytest.raises(OSError, match="it is a link, not a regular file") as refused:
        descriptor_of(tmp_path / "b", os.O_RDWR)
    assert refused.value.filename == str(tmp_path / "b")


def test_a_fifo_is_refused_at_once_and_loses_nothing(tmp_path):
    os.mkfifo(tmp_path / "f")
    both = os.open(tmp_path / "f", os.O_RDWR)  # so that a reader finds something
    os.write(both, b"text")

    with pytest.raises(OSError, match="it is a FIFO, not a regular file") as refused:
        open_input(tmp_path / "f")

    assert refused.value.strerror == "it is a FIFO, not a regular file"
    assert os.read(both, 10) == b"text"
    os.close(both)


def test_reading_a_whole_file_has_a_size_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"text")

    assert read_input(tmp_path / "a", 4) == b"text"
    with pytest.raises(OSError, match="it has more than 3 bytes"):
        read_input(tmp_path / "a", 3)
