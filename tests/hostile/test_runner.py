"""The runner of the corpus sees what an input does that it may not."""

import pytest

VERDICTS = {
    "nothing": ("ok", ""),
    "wrong": ("wrong", "AssertionError"),
    "raises": ("crashed", "ValueError: a fault"),
    "aborts": ("crashed", "SIGABRT"),
    "waits": ("hung", "1 seconds"),
    "waits-in-another-process": ("hung", "1 seconds"),
    "counts": ("hung", "SIGXCPU"),
    "allocates": ("large", "MemoryError"),
    "writes-beside": ("escaped", "wrote: "),
    "renames-to-beside": ("escaped", "os.rename: "),
    "takes-the-bait": ("escaped", "opened "),
    "connects": ("escaped", "169.254.169.254"),
    "runs-a-program": ("escaped", "/bin/true"),
    "prints-an-escape": ("wrong", "is printed"),
}

pytestmark = pytest.mark.one_server("each input has a database of it to itself")


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict(runner, name):
    came = runner.run(f"doomed/{name}")

    verdict, told = VERDICTS[name]
    assert came["verdict"] == verdict, came
    assert told in came["told"]


def test_an_input_after_one_that_is_killed(runner):
    assert runner.run("doomed/aborts")["verdict"] == "crashed"
    assert runner.run("doomed/nothing")["verdict"] == "ok"


def test_each_input_that_fails_beside_others_is_named(runner):
    names = [f"doomed/{name}" for name in ("nothing", "wrong", "aborts", "raises")]
    came = [(one["name"], one["verdict"]) for one in runner.run_together(names)]

    verdicts = ("wrong", "crashed", "crashed")
    assert came == list(zip(names[1:], verdicts, strict=True))
    (well,) = runner.run_together(names[:1] * 2)
    assert well["verdict"] == "ok"
    for one in ("takes-the-bait", "counts"):
        names = ["doomed/nothing", f"doomed/{one}", "doomed/nothing"]
        (came,) = runner.run_together(names)
        assert (came["name"], came["verdict"]) == (names[1], VERDICTS[one][0])
