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


def test_the_first_of_several_inputs_that_fails_is_named(runner):
    for name in ("wrong", "aborts", "takes-the-bait", "counts"):
        names = ["doomed/nothing", f"doomed/{name}", "doomed/nothing"]
        came = runner.run(*names)
        assert (came["name"], came["verdict"]) == (names[1], VERDICTS[name][0])
    assert runner.run(*["doomed/nothing"] * 2)["verdict"] == "ok"
