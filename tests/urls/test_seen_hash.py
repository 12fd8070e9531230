from hypothesis import given, strategies as st

from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import partition_of

FINGERPRINTS = st.binary(min_size=1, max_size=64)


@given(FINGERPRINTS)
def test_a_mark_has_19_digits_whatever_it_is(fingerprint):
    found = seen_hash(fingerprint)

    assert len(str(found)) == 19
    assert 2**62 <= found < 2**63  # a signed 64-bit integer, as intsets want it


def test_marks_are_the_same_everywhere_and_for_ever():
    assert seen_hash(b"http://a.example/") == 5616141643484177666
    assert partition_of("a.example", 1024) == 436
