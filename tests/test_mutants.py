from tests.mutants.__main__ import excuses, stale


def test_every_excuse_has_a_reason_and_fits_a_mutant():
    known = excuses()

    assert stale(known) == []
    assert all(len(reason) > 10 for reason in known.values())
