import os

import pytest

from frontier.files import descriptor_of, open_input


def test_a_named_symlink_is_followed(tmp_path):
    (tmp_path / "a").write_bytes(b"text")
    (tmp_path / "b").symlink_to("a")

    with open_input(tmp_path / "b") as file:
        assert file.read() == b"text"
    with pytest.raises(OSError, match="it is a link, not a regular file") as refused:
        descriptor_of(tmp_path / "b", os.O_RDWR)
    assert refused.value.filename == str(tmp_path / "b")
