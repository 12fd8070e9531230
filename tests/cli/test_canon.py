SESSION = "0123456789abcdef0123456789abcdef"


def test_a_url_is_explained_step_by_step(frontier, shown):
    url = f"http://www.Example.com/A?PHPSESSID={SESSION}&x=1"
    said = shown("canon", "explain", url)

    assert said["seen_key"] == "http://example.com/a?x=1"
    assert said["surt"] == "com,example)/a?x=1"
    assert said["queue_key"] == "example.com"
    names = [step["step"] for step in said["steps"]]
    assert names[-1] == "heritrix.strip-session-ids"
    assert said["steps"][-1]["url"] == said["seen_key"]
    lines = frontier("canon", "explain", url).stdout.splitlines()
    assert [line.split()[0] for line in lines[1 : 1 + len(names)]] == names


def test_rules_of_a_file_are_explained_too(shown, tmp_path):
    text = 'name = "ours"\nbase = "surt"\n[[rule]]\nstrip = "visit=[0-9]+"\n'
    (tmp_path / "ours.toml").write_text(text)
    url = "http://www.a.example/?visit=7"
    said = shown("canon", "explain", url, "--rules", "ours.toml")

    names = [step["step"] for step in said["steps"]]
    assert names == ["rule 1, strip", "commons.key"]
    assert said["seen_key"] == "example,a)/"
