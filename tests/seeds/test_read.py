import logging

import pytest

from frontier.errors import ConfigurationError
from frontier.seeds.read import read_seeds


@pytest.fixture
def seeds_file(tmp_path):
    def seeds_file(content):
        path = tmp_path / "seeds.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return seeds_file


def test_a_url_is_a_seed():
    assert read_seeds("http://a.example/x?y=1") == ["http://a.example/x?y=1"]
    assert read_seeds("HTTPS://a.example") == ["HTTPS://a.example"]


def test_several_urls_are_parted_by_commas_and_each_counts_once():
    assert read_seeds("http://a/, http://b/,http://a/,") == ["http://a/", "http://b/"]


def test_a_file_has_one_on_each_line(seeds_file):
    path = seeds_file(
        "\ufeffhttp://a/\r\n\r\n  http://b/ \n# no\n#http://c/\nhttp://a/"
    )

    assert read_seeds(path) == ["http://a/", "http://b/"]


def test_a_bad_line_is_said_by_its_number_and_the_rest_goes_on(seeds_file, caplog):
    caplog.set_level(logging.ERROR)
    path = seeds_file("http://a/\nftp://b/\nwww.c.example\nhttp:///d\nhttp://e/")

    assert read_seeds(path) == ["http://a/", "http://e/"]
    texts = [record.getMessage() for record in caplog.records]
    assert [text.split(": ")[0] for text in texts] == [
        f"{path}:{number}" for number in (2, 3, 4)
    ]
    assert "'ftp://b/' is not an http or https URL" in texts[0]


@pytest.mark.parametrize("content", ["", "\n\n", "# only\n", "ftp://a/\n", b"\xff"])
def test_a_file_without_a_good_seed_is_refused(seeds_file, content):
    with pytest.raises(ConfigurationError, match="no seed in .*seeds.txt"):
        read_seeds(seeds_file(content))


@pytest.mark.parametrize("given", ["", None])
def test_no_seeds_are_refused_with_the_way_to_give_them(given):
    with pytest.raises(ConfigurationError, match="-a seeds="):
        read_seeds(given)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="nor a file; a URL begins with"):
        read_seeds(str(tmp_path / "nowhere.txt"))
    with pytest.raises(ConfigurationError, match="cannot be read: it is a directory"):
        read_seeds(str(tmp_path))
