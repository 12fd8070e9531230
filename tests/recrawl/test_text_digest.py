import pytest

from frontier.recrawl.text_digest import MOST_BYTES, text_digest
from tests.harness.growth import grows_with, repeated

PAGE = b"""<!doctype html><html><head><title>News</title>
<script src="/app.js?v=%s">var now = 1;</script></head><body>
<p>It is %s.</p><h1>Council votes for a bridge</h1><!-- %s -->
<form><input name=token value=%s></form><p>It costs 12 million.</p></body></html>"""


def page(stamp, clock):
    return PAGE % (stamp, clock, stamp, stamp)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"12:00:01", b"23:59:59"),
        (b"9:05 AM", b"11:45 p.m."),
        (b"2026-11-23T07:16:08Z", b"2026-12-24T08:00:00+01:00"),
        (b"23.11.2026", b"1.2.26"),
        (b"Mon, 23 Nov 2026 07:16:08 GMT", b"Tuesday, 24 December 2026 18:30:00 UTC"),
        (b"November 23, 2026", b"Dec 1, 2027"),
        (b"1763881200", b"1763881299"),
        (b"5 minutes ago", b"1 hour ago"),
    ],
)
def test_a_clock_is_no_change(one, other):
    assert text_digest(page(b"a1", one)) == text_digest(page(b"b2", other))


@pytest.mark.parametrize(
    "changed",
    [
        (b"votes for", b"votes against"),
        (b"12 million", b"13 million"),
        (b"News", b"Old news"),
    ],
)
def test_visible_change_alters_the_text_digest(changed):
    before = page(b"a1", b"12:00")

    assert text_digest(before.replace(*changed)) != text_digest(before)


def test_white_space_tags_and_case_are_no_change():
    one = b"<p>To  be\n or not</p>"

    assert text_digest(one) == text_digest(b"<div class=x>TO be or</div> <b>not</b>")


def test_less_than_sign_is_kept_as_text():
    assert text_digest(b"if a < b then c") != text_digest(b"if a < d then c")
    assert text_digest(b"1 <2 and 3") != text_digest(b"1 <2 and 4")


@pytest.mark.parametrize(
    "unit",
    [b"<", b"<!--", b"<script>", b"<a", b"</script", b"1:", b"1", b"jan ", b"2026-11-"],
)
def test_the_time_is_linear_whatever_the_page(unit):
    assert grows_with(text_digest, repeated(unit), 50_000)


def test_a_page_beyond_the_limit_differs_by_its_length():
    large = b"a" * (MOST_BYTES + 1)

    assert text_digest(large) != text_digest(large + b"more")


@pytest.mark.parametrize("body", [b"", b"<", b"<!", b"<a", b"\xff\x00\xfe", b"</"])
def test_any_bytes_have_a_digest(body):
    assert len(text_digest(body)) == 16
