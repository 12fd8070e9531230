import pytest
from hypothesis import given, strategies as st

from frontier.seen.recent import Recent


@given(st.integers(1, 50), st.lists(st.integers(0, 60), max_size=300))
def test_seen_is_said_only_of_what_was_put_in_and_the_size_is_kept(size, keys):
    recent, put = Recent(size), set()
    for key in keys:
        if recent.add(key):
            assert key in put
        put.add(key)
        assert len(recent) <= max(size, 2)


@pytest.mark.parametrize("size", [10, 11, 1_000])
def test_the_last_half_of_the_size_is_never_forgotten(size):
    recent = Recent(size)
    for n in range(10 * size):
        recent.add(n)

    assert all(recent.add(n) for n in range(10 * size - size // 2 + 1, 10 * size))


def test_a_key_that_is_asked_for_is_used():
    recent = Recent(10)
    recent.add("home")
    assert "home" in recent
    for n in range(1_000):
        recent.add(n)
        assert "home" in recent

    assert "away" not in recent
