import pytest

from frontier.status.text import duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.26, "0.3 s"),
        (6.04, "6 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (73.4, "73 s"),
        (89.9, "90 s"),
        (90, "2 min"),
        (5369, "89 min"),
        (5400, "1 h 30 min"),
        (47 * 3600 + 59 * 60, "47 h 59 min"),
        (48 * 3600, "2 d 0 h"),
        (10**10, "115,740 d 17 h"),
    ],
)
def test_a_time_has_as_many_digits_as_say_something(seconds, text):
    assert duration(seconds) == text
