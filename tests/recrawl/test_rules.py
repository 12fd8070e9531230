import os

import pytest

from frontier.errors import InputBroken
from frontier.recrawl.rules import MAX_BYTES, MAX_RULES, rules_file
from frontier.recrawl.schedule import Kind, Schedule

DEFAULT = Schedule(interval=86_400)
TEXT = """
# A comment
[[rule]]
host = "news.example"
path = "/live/"
minimum = "5m"
maximum = "1h 30m"

[[rule]]
host = "*.news.example"
mime = "image/*"
schedule = "off"

[[rule]]
mime = "application/pdf"
schedule = "fixed"
interval = "40d"

[[rule]]
host = "news.example"
growth = 3
text = true
"""


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "recrawl.toml"

    def write(text):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_the_first_rule_that_matches_wins(written):
    rules = rules_file(written(TEXT), DEFAULT).read()

    live = rules.of("https://news.example/live/today?page=2", "text/html")
    assert (live.minimum, live.maximum, live.growth) == (300, 5_400, 1.5)
    assert rules.of("https://img.news.example/a", "image/png").kind is Kind.OFF
    assert rules.of("https://news.example/a", "image/png").kind is Kind.OFF
    pdf = rules.of("https://other.example/a", "application/pdf")
    assert (pdf.kind, pdf.interval) == (Kind.FIXED, 40 * 86_400)
    other = rules.of("http://NEWS.example:8080/about", "text/html")
    assert (other.growth, other.text, other.minimum) == (3.0, True, DEFAULT.minimum)
    assert rules.of("https://notnews.example/", "text/html") == DEFAULT
    assert rules.of("https://img.news.example/", "text/html") == DEFAULT


def test_minutes_and_months_stand_in_one_file(written):
    rules = rules_file(
        written(
            '[[rule]]\npath="/a"\nmaximum="2m"\nminimum="1m"\n[[rule]]\nmaximum="360d"'
        ),
        DEFAULT,
    ).read()

    assert rules.of("http://a.example/a").maximum == 120
    assert rules.of("http://a.example/b").maximum == 360 * 86_400


BROKEN = {
    "x = 1\n": (1, "did you mean|it has rule"),
    '[[rule]]\nhots = "a.example"\ngrowth = 2\n': (2, "did you mean 'host'"),
    '[[rule]]\ngrowth=2\n\n[[rule]]\n\nmaximun = "1d"\n': (6, "did you mean 'maximum'"),
    '[[rule]]\nschedule = "adaptiv"\n': (2, "must be one of off, fixed, adaptive"),
    '[[rule]]\nminimum = "soon"\n': (2, "minimum: must be a time such as"),
    "[[rule]]\nminimum = 0.01\n": (2, "must be from"),
    '[[rule]]\nminimum = "40d"\nmaximum = "1d"\n': (2, "more than the maximum"),
    "[[rule]]\ngrowth = 0.1\n": (2, "must be from 1 to 100"),
    '[[rule]]\ngrowth = "two"\n': (2, "must be a number"),
    '[[rule]]\nhost = "http://a.example/"\ngrowth = 2\n': (2, "must be a host"),
    '[[rule]]\npath = "live"\ngrowth = 2\n': (2, "slash"),
    '[[rule]]\nmime = "html"\ngrowth = 2\n': (2, "media type"),
    '[[rule]]\ntext = "maybe"\n': (2, "True or False"),
    '[[rule]]\nhost = "a.example"\n': (1, "says none of"),
    "rule = 5\n": (1, "write each rule as \\[\\[rule\\]\\]"),
    "[[rule]]\ngrowth = 2\n[[rule]\n": (3, "is not TOML"),
    "a" * 5_000: (1, "line of more than"),
    "[[rule]]\ngrowth=2\n" * (MAX_RULES + 1): (0, "more than 1,000 rules"),
    b"\n\xff\n": (2, "is not UTF-8"),
}


def test_invalid_recrawl_rule_names_the_file_and_line(written):
    for text, (line, reason) in BROKEN.items():
        path = written(text)

        with pytest.raises(InputBroken, match=reason) as raised:
            rules_file(path, DEFAULT).read()

        assert raised.value.line == line, text
        assert str(raised.value).startswith(f"{path}:{line}: " if line else f"{path}: ")


def test_a_file_that_is_too_large_or_none_is_refused(written, tmp_path):
    with pytest.raises(InputBroken):
        rules_file(written(b"#" * (MAX_BYTES + 1)), DEFAULT).read()
    with pytest.raises(InputBroken):
        rules_file(tmp_path / "other.toml", DEFAULT).read()
    os.mkfifo(tmp_path / "fifo.toml")
    with pytest.raises(InputBroken):
        rules_file(tmp_path / "fifo.toml", DEFAULT).read()
