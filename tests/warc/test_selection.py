import pytest

from frontier.warc.selection import Selection, mime_of
from tests.warc.samples import an_exchange

PNG = (
    b"HTTP/1.1 200 OK\r\nX-A: content-type: no\r\ncontent-type:  Image/PNG; q=1\r\n\r\n"
)


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ([], [], True),
        (["mime:text/*"], [], True),
        (["mime:image/*", "mime:text/*"], [], True),
        (["mime:text/*", "status:404"], [], False),
        (["mime:text/*", "status:2xx"], [], True),
        (["url:example[.]com/0$"], [], True),
        (["url:example[.]org"], [], False),
        ([], ["status:2xx"], False),
        ([], ["status:20"], False),
        ([], ["url:/0"], False),
    ],
)
def test_rules_choose(include, exclude, taken):
    assert Selection(include, exclude).takes(an_exchange()) is taken


def test_a_mime_type_is_that_of_the_head():
    assert mime_of(PNG) == "image/png"
    assert mime_of(b"HTTP/1.1 200 OK\r\n\r\n") == ""
