import pytest

from frontier.dedupe.revisit_policy import Policy, may_be_revisit
from tests.warc.samples import an_exchange


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b""},
        {"truncated": "length"},
        {"status": 301},
        {"status": 304},
        {"status": 404},
        {"status": 206},
        {"request_head": b"POST /form HTTP/1.1\r\n\r\n"},
        {"request_head": b"HEAD / HTTP/1.1\r\n\r\n"},
    ],
)
def test_empty_truncated_or_non_page_answers_are_never_revisits(changes):
    assert not may_be_revisit(an_exchange(**changes))


def of(mime, body=b"x" * 100):
    head = b"HTTP/1.1 200 OK\r\nX: y\r\ncontent-type:%s\r\n\r\n" % mime
    return an_exchange(body=body, response_head=head)


@pytest.mark.parametrize(
    ("mime", "include", "exclude", "allowed"),
    [
        (b" Text/HTML; charset=utf-8", (), ("text/*",), False),
        (b"image/png", (), ("text/*",), True),
        (b"image/png", ("image/*", "video/*"), (), True),
        (b"text/css", ("image/*", "video/*"), (), False),
        (b"image/gif", ("image/*",), ("image/gif",), False),
        (b"", (), ("text/*",), True),
        (b"", ("text/*",), (), False),
    ],
)
def test_media_types_are_included_and_excluded(mime, include, exclude, allowed):
    policy = Policy(mime_include=include, mime_exclude=exclude)

    assert policy(of(mime)) is allowed


@pytest.mark.parametrize(
    ("mime", "allowed"),
    [(b"text/css", False), (b"application/rss+xml", False), (b"image/png", True)],
)
def test_text_and_binary_have_sizes_of_their_own(mime, allowed):
    assert Policy(min_text_bytes=101, min_binary_bytes=100)(of(mime)) is allowed
    assert not Policy(min_binary_bytes=101)(of(b"image/png"))
