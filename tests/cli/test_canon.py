import json

import pytest

SESSION = "0123456789abcdef0123456789abcdef"


def test_a_url_is_explained_step_by_step(frontier):
    url = f"http://www.Example.com/A?PHPSESSID={SESSION}&x=1"
    done = frontier("canon", "explain", url, "--json")

    said = json.loads(done.stdout)
    assert said["seen_key"] == "http://example.com/a?x=1"
    assert said["surt"] == "com,example)/a?x=1"
    assert said["queue_key"] == "example.com"
    names = [step["step"] for step in said["steps"]]
    assert names[-1] == "heritrix.strip-session-ids"
    assert said["steps"][-1]["url"] == said["seen_key"]
    lines = frontier("canon", "explain", url).stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(names)]] == names


def test_rules_of_a_file_are_explained_too(frontier, tmp_path):
    text = 'name = "ours"\nbase = "surt"\n[[rule]]\nstrip = "visit=[0-9]+"\n'
    (tmp_path / "ours.toml").write_text(text)
    url = "http://www.a.example/?visit=7"
    said = json.loads(
        frontier("canon", "explain", url, "--rules", "ours.toml", "--json").stdout
    )

    names = [step["step"] for step in said["steps"]]
    assert names == ["rule 1, strip", "commons.key"]
    assert said["seen_key"] == "example,a)/"


def test_what_the_rules_refuse_is_shown_with_the_reason(frontier):
    done = frontier("canon", "explain", "http://a..example/")

    assert "refused by heritrix.usable: its host is invalid" in done.stdout


def test_two_sets_are_compared_on_a_list(frontier, tmp_path):
    file = tmp_path / "urls.txt"
    file.write_text("http://www.a.example/x\nhttp://a.example/x\n\nnone\n")
    words = ("canon", "compare", "heritrix", "scrapy", str(file))

    said = json.loads(frontier(*words, "--json").stdout)
    assert said["urls"] == 3
    assert said["heritrix"] == {
        "distinct": 1,
        "refused": 1,
        "merges_more": 1,
        "examples": [["http://www.a.example/x", "http://a.example/x"]],
    }
    assert said["scrapy"]["merges_more"] == 0
    assert "heritrix merges" in frontier(*words).stdout


def test_the_sets_are_listed(frontier):
    said = json.loads(frontier("canon", "rules", "--json").stdout)

    assert [rules["name"] for rules in said["rules"]][:2] == ["scrapy", "heritrix"]
    assert "surt-ordinary" in frontier("canon", "rules").stdout


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("explain", "http://a.example/", "--rules", "nutch"), "'nutch'"),
        (("compare", "heritrix", "nutch", "x.txt"), "'nutch'"),
        (("compare", "heritrix", "surt", "no/such.txt"), "no/such.txt"),
    ],
)
def test_what_cannot_be_is_one_message(frontier, words, name):
    done = frontier("canon", *words)

    assert done.returncode == 2
    assert name in done.stderr
    assert done.stderr.count("\n") == 1
