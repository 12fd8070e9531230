import pytest

from frontier.errors import ConfigurationError
from frontier.requests.identities import lines_of
from frontier.seeds.read import Line


@pytest.mark.parametrize(
    "prefix",
    [
        "http://a.example/path/*",
        "http://*.a.example/",
        "http://(com,example,)/path",
        "(com,example,",
        "com,example)/path",
        "com,example,",
    ],
)
def test_a_prefix_is_refused_with_its_place_and_the_reason(tmp_path, prefix):
    path = tmp_path / "list"
    path.write_text(f"http://a.example/1\n{prefix}\n")

    with pytest.raises(ConfigurationError) as in_file:
        lines_of(str(path))
    with pytest.raises(ConfigurationError) as given:
        lines_of(prefix)

    said = f"{prefix!r} is a prefix, and the store keeps hashes"
    assert str(given.value).startswith(said)
    assert str(in_file.value)[-len(str(given.value)) :] == str(given.value)
    assert "list:2: " in str(in_file.value)


BAD = [
    (b"http://a.example/" + b"a" * 5_000_000, "takes more than 4,194,304 bytes"),
    (b"http://a.example/\xff\xfe", "is not UTF-8, at its byte 18"),
    (b"http://a.example/\x1b[31m", "control character '\\x1b'"),
    (b"http://a.example/\x00", "control character '\\x00'"),
    (b"http://a.example/\xc2\x9b", "control character '\\x9b'"),
    (b"http://a.example/a b", "has white space or a control"),
    (b"http://[::1/", "is not an http or https URL"),
    (b"http://a.example:99999/", "is not an http or https URL"),
    (b"ftp://a.example/", "is not an http or https URL"),
    (b"http://", "is not an http or https URL"),
    (b"nonsense", "is not an http or https URL"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[reason for _, reason in BAD])
def test_a_bad_line_is_named_with_its_number(tmp_path, line, reason):
    path = tmp_path / "list"
    path.write_bytes(b"http://a.example/1\r\n# no\n" + line)

    with pytest.raises(ConfigurationError) as caught:
        lines_of(str(path))

    said = str(caught.value)
    assert "list:3: " in said
    assert reason in said
    assert len(said) < 600
    assert said.isprintable()


def test_each_url_of_a_file_comes_once_with_its_first_place(tmp_path):
    text = "\ufeffhttp://a/1\r\n# \u00e9\n\n http://a/\u00e9 \nhttp://a/1"
    path = tmp_path / "list"
    path.write_bytes(text.encode())

    assert lines_of(str(path)) == [
        Line(f"{path}:1", "http://a/1"),
        Line(f"{path}:4", "http://a/\u00e9"),
    ]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-such-file", "is neither a URL nor a file; a URL begins with https://"),
        (".", "the file '.' cannot be read: it is a directory"),
        ("a\0b", "cannot be read: embedded null byte"),
    ],
)
def test_invalid_url_list_path_reports_why(name, reason):
    with pytest.raises(ConfigurationError, match=reason):
        lines_of(name)
