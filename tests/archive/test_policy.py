import pytest

from frontier.archive.policy import may_be_revisit
from tests.archive.samples import an_exchange


def test_a_page_may_be_a_revisit():
    assert may_be_revisit(an_exchange())


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b""},
        {"truncated": "length"},
        {"status": 301},
        {"status": 304},
        {"status": 404},
        {"status": 206},
    ],
)
def test_what_is_empty_cut_off_or_not_a_page_is_stored_as_it_is(changes):
    assert not may_be_revisit(an_exchange(**changes))
