from hypothesis import given, strategies as st

from frontier.recrawl.schedule import (
    DIGEST_BYTES,
    GONE_AFTER,
    LEAST,
    MOST,
    SIZE,
    Answer,
    Finding,
    Kind,
    Mark,
    Schedule,
    State,
    after,
)

MINUTE, DAY = 60.0, 86_400.0
ADAPTIVE = Schedule(interval=3_600, minimum=MINUTE, maximum=30 * DAY, growth=2, decay=2)
ONE, TWO = Mark.of(b"one"), Mark.of(b"two")


def visits(schedule, answers, state=None):
    """What each of *answers*, a mark or an answer, leads to."""
    found = []
    for answer in answers:
        mark = answer if isinstance(answer, Mark) else None
        kind = Answer.PAGE if mark else answer
        finding, state = after(schedule, state, kind, mark)
        found.append((finding, state.interval if state else None))
    return found


def test_the_interval_grows_while_nothing_changes_and_stops_at_the_maximum():
    found = visits(ADAPTIVE, [ONE] * 20)

    assert found[:3] == [
        (Finding.FIRST, 3_600),
        (Finding.UNCHANGED, 7_200),
        (Finding.UNCHANGED, 14_400),
    ]
    assert found[-1] == (Finding.UNCHANGED, 30 * DAY)


def test_the_interval_shrinks_while_all_changes_and_stops_at_the_minimum():
    found = visits(ADAPTIVE, [ONE, TWO] * 10)

    assert found[:3] == [
        (Finding.FIRST, 3_600),
        (Finding.CHANGED, 1_800),
        (Finding.CHANGED, 900),
    ]
    assert found[-1] == (Finding.CHANGED, MINUTE)


def test_a_fixed_schedule_has_one_interval_whatever_was_stored():
    fixed = Schedule(Kind.FIXED, interval=DAY)

    found = visits(fixed, [ONE, TWO, TWO, Answer.FAILED], State(12.5, ONE))

    assert {interval for _, interval in found} == {DAY}


def test_not_modified_is_unchanged():
    assert visits(ADAPTIVE, [ONE, Answer.SAME])[-1] == (Finding.UNCHANGED, 7_200)
    assert visits(ADAPTIVE, [Answer.SAME]) == [(Finding.FIRST, 3_600)]


def test_a_visit_without_an_answer_changes_nothing():
    state = State(5 * DAY, ONE, gone=1)

    assert after(ADAPTIVE, state, Answer.FAILED) == (Finding.FAILED, state)


def test_a_url_that_is_gone_three_times_in_a_row_leaves():
    found = visits(ADAPTIVE, [ONE, *[Answer.GONE] * GONE_AFTER])

    assert [finding for finding, _ in found] == [
        Finding.FIRST,
        Finding.GONE,
        Finding.GONE,
        Finding.LEFT,
    ]
    assert found[-1] == (Finding.LEFT, None)


def test_a_url_that_comes_back_is_counted_from_zero():
    answers = [ONE, Answer.GONE, Answer.GONE, ONE, Answer.GONE, Answer.GONE]

    assert visits(ADAPTIVE, answers)[-1][0] is Finding.GONE


def test_an_error_between_does_not_bring_a_page_back():
    answers = [Answer.GONE, Answer.FAILED, Answer.GONE, Answer.FAILED, Answer.GONE]

    assert visits(ADAPTIVE, answers)[-1][0] is Finding.LEFT


def test_marks_of_payload_and_of_text_are_not_compared():
    text = Mark.of(b"one", of_text=True)

    assert visits(ADAPTIVE, [ONE, text, text]) == [
        (Finding.FIRST, 3_600),
        (Finding.FIRST, 3_600),
        (Finding.UNCHANGED, 7_200),
    ]


def test_status_maps_to_page_same_gone_or_failed():
    said = {Answer.PAGE: (200, 301), Answer.SAME: (304,), Answer.GONE: (404, 410)}
    said[Answer.FAILED] = (0, 403, 429, 500, 503)

    for answer, statuses in said.items():
        assert {Answer.of_status(status) for status in statuses} == {answer}


marks = st.builds(
    Mark, st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES), st.booleans()
)
states = st.builds(
    State,
    st.floats(LEAST, MOST).map(lambda s: round(s * 10) / 10),
    st.none() | marks,
    st.integers(0, GONE_AFTER),
)


@given(states)
def test_packed_state_unpacks_to_the_same_state(state):
    packed = state.packed()

    assert len(packed) == SIZE <= 12
    assert State.unpacked(packed) == state


@given(st.binary(max_size=30) | st.none() | st.text() | st.integers() | states)
def test_unpacked_state_is_within_bounds_or_missing(value):
    found = State.unpacked(value.packed()[:-1] if isinstance(value, State) else value)

    assert found is None or (LEAST <= found.interval <= MOST and found.gone <= 3)


@given(st.floats(), states, st.sampled_from([*Answer]), marks)
def test_intervals_stay_within_the_schedule_in_effect(interval, state, answer, mark):
    state = State(interval, state.mark) if interval == interval else state
    _, then = after(ADAPTIVE, state, answer, mark)

    assert then is None or MINUTE <= then.interval <= 30 * DAY


def test_a_schedule_that_cannot_be_says_why():
    cannot = {"interval": 0.0, "maximum": 1e12, "growth": 0.5, "decay": 1000.0}
    for field, value in cannot.items():
        assert Schedule(**{field: value}).problem()[0] == field
    assert Schedule(minimum=10.0, maximum=5.0).problem()[0] == "minimum"
    assert Schedule().problem()[0] == ""
