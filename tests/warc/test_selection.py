import dataclasses

import pytest

from frontier.errors import ConfigurationError
from frontier.warc.selection import Selection, mime_of
from tests.warc.samples import an_exchange

PNG = (
    b"HTTP/1.1 200 OK\r\nX-A: content-type: no\r\ncontent-type:  Image/PNG; q=1\r\n\r\n"
)


@pytest.mark.parametrize(
    ("include", "exclude", "taken"),
    [
        ([], [], True),
        (["mime:text/html"], [], True),
        (["mime:text/*"], [], True),
        (["mime:image/*"], [], False),
        (["mime:image/*", "mime:text/*"], [], True),
        (["mime:text/*", "status:404"], [], False),
        (["mime:text/*", "status:2xx"], [], True),
        (["url:example[.]com/0$"], [], True),
        (["url:example[.]org"], [], False),
        ([], ["status:2xx"], False),
        ([], ["status:20"], False),
        ([], ["status:404"], True),
        ([], ["url:/0"], False),
        (["mime:text/html"], ["mime:text/*"], False),
    ],
)
def test_rules_choose(include, exclude, taken):
    assert Selection(include, exclude).takes(an_exchange()) is taken


def test_a_mime_type_is_that_of_the_head():
    assert mime_of(PNG) == "image/png"
    assert mime_of(b"HTTP/1.1 200 OK\r\n\r\n") == ""


@pytest.mark.parametrize(
    "rules", [["url:(a+)+b"], ["url:a*a*a*a*b"], ["url:a*a*b"] * 9]
)
def test_expressions_that_take_too_long_for_a_url_are_refused(rules):
    for given in ((rules, []), ([], rules)):
        with pytest.raises(ConfigurationError, match="FRONTIER_WARC_INCLUDE"):
            Selection(*given)


def test_a_url_that_is_too_long_for_the_rules_is_archived_and_told_of(caplog):
    url = "http://a.example/" + "a" * 14_000
    exchange = dataclasses.replace(an_exchange(), url=url)

    for given in ((["url:a*b"], []), ([], ["url:a*a"]), (["url:a*b"], ["url:a*a"])):
        caplog.clear()
        selection = Selection(*given)
        assert selection.takes(exchange)
        assert selection.takes(exchange)
        (record,) = caplog.records
        assert "take too long for them" in record.getMessage()
    assert Selection([], ["url:/aaa"]).takes(exchange) is False
