"""What of a robots.txt is read."""

from frontier.download.robots import LIMIT, first_part


def test_half_of_a_rule_is_not_read():
    filler = b"#" * (LIMIT - 12) + b"\n"

    body, is_all = first_part(filler + b"Disallow: /private\n")

    assert body == filler
    assert not is_all


def test_robots_txt_within_the_limit_is_read_whole():
    for size in (0, 1, LIMIT):
        assert first_part(b"x" * size) == (b"x" * size, True)
