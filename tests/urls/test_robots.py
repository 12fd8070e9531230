"""What of a robots.txt is read."""

from frontier.urls.robots import LIMIT, first_part, robots_job


def test_half_of_a_rule_is_not_read():
    filler = b"#" * (LIMIT - 12) + b"\n"

    body, is_all = first_part(filler + b"Disallow: /private\n")

    assert body == filler
    assert not is_all


def test_robots_txt_within_the_limit_is_read_whole():
    for size in (0, 1, LIMIT):
        assert first_part(b"x" * size) == (b"x" * size, True)


def test_truncated_robots_txt_loses_its_unfinished_line():
    assert first_part(b"a\r\nb\rc", is_whole=False) == (b"a\r\nb\r", False)
    assert first_part(b"x" * 10, is_whole=False) == (b"", False)


def test_a_worker_reads_what_is_no_text():
    given = {"agent": "frontier"}

    assert list(robots_job(b"\xff\xfeUser-agent: *\nDisallow: /\n\0" * 5, given))
