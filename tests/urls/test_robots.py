"""What of a robots.txt is read, and what its rules say."""

import pytest
from protego import Protego

from frontier.urls.robots import LIMIT, first_part, robots_job

# Facts of RFC 9309 (2.2.1 to 2.2.3, and its examples in 5), as Scrapy's parser has
# them: the rules, the crawler's name, and what it may fetch or not.
RULES = {
    "5.1": (
        (
            "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\n"
            "Allow: /publications/\n"
            "User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\n"
            "Allow:/example/allowed.gif\nUser-Agent: barbot\nUser-Agent: bazbot\n"
            "Disallow: /example/page.html\nUser-Agent: quxbot\n"
        ),
        {
            "anybot": (["/", "/publications/a"], ["/a.gif", "/example/page.html"]),
            "foobot": (["/example/page.html", "/example/allowed.gif"], ["/", "/x"]),
            "barbot": (["/", "/example/", "/a.gif"], ["/example/page.html"]),
            "bazbot": (["/"], ["/example/page.html"]),
            "quxbot": (["/", "/a.gif", "/example/page.html"], []),
        },
    ),
    "5.2: the longest match": (
        (
            "User-Agent: foobot\nAllow: /example/page/\n"
            "Disallow: /example/page/disallowed.gif\n"
        ),
        {
            "foobot": (
                ["/example/page/", "/example/page/x"],
                ["/example/page/disallowed.gif"],
            )
        },
    ),
    "2.2.2: an equal match is allowed": (
        "User-agent: *\nDisallow: /a\nAllow: /a\n",
        {"x": (["/a", "/a/b"], [])},
    ),
    "2.2.1: groups of one name are one": (
        (
            "User-agent: a\nDisallow: /1\n\nUser-agent: b\nDisallow: /2\n\n"
            "User-agent: a\nDisallow: /3\n"
        ),
        {"a": (["/2"], ["/1", "/3"]), "b": (["/1"], ["/2"]), "c": (["/1"], [])},
    ),
    "2.2.3: what ends, and what is in between": (
        "User-agent: *\nDisallow: /path/file-with-a-%2A.html\nDisallow: /*/end$\n",
        {"x": (["/a/end/b"], ["/path/file-with-a-*.html", "/a/b/end"])},
    ),
    "2.2.2: robots.txt itself": (
        "User-agent: *\nDisallow: /\n",
        {"x": (["/robots.txt"], ["/", "/robots"])},
    ),
}


@pytest.mark.parametrize("fact", RULES)
def test_rules_are_read_as_the_standard_has_them(fact):
    text, expected = RULES[fact]
    rules = Protego.parse(text)

    for agent, (allowed, forbidden) in expected.items():
        for path in allowed:
            assert rules.can_fetch(f"https://example.org{path}", agent), path
        for path in forbidden:
            assert not rules.can_fetch(f"https://example.org{path}", agent), path


def test_half_of_a_rule_is_not_read():
    filler = b"#" * (LIMIT - 12) + b"\n"

    body, is_all = first_part(filler + b"Disallow: /private\n")

    assert body == filler
    assert not is_all


@pytest.mark.parametrize("size", [0, 1, LIMIT])
def test_what_is_small_enough_is_read_to_its_last_byte(size):
    assert first_part(b"x" * size) == (b"x" * size, True)


def test_of_what_the_server_had_not_ended_the_last_line_is_left_out():
    assert first_part(b"a\r\nb\rc", is_whole=False) == (b"a\r\nb\r", False)
    assert first_part(b"x" * 10, is_whole=False) == (b"", False)


def test_a_worker_reads_what_is_no_text():
    given = {"agent": "frontier"}

    assert list(robots_job(b"\xff\xfeUser-agent: *\nDisallow: /\n\0" * 5, given))
