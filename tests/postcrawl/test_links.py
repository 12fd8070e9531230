"""Symbolic links: what is rewritten has another name, and its bytes would stay."""

import json

import pytest

from frontier.cli.output import ExitCode
from tests.harness import commands
from tests.postcrawl.test_dedupe import run, state

WHY = "it is a link; name what it leads to"
URL = "http://a.example/"
REMOVE = ("--url", URL, "--yes")


@pytest.fixture
def linked(before, tmp_path):
    """A link below `before` to a file elsewhere, which `before` has not."""
    elsewhere, link = tmp_path / "elsewhere", before / "two.warc.gz"
    elsewhere.mkdir()
    link.rename(elsewhere / link.name)
    link.symlink_to(elsewhere / link.name)
    return link


@pytest.mark.parametrize("command", ["remove", "dedupe", "restore", "convert"])
@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_link_in_a_directory_is_named_and_left_alone(linked, tmp_path, command, kind):
    before, out = linked.parent, tmp_path / "out"
    if kind == "directory":
        linked.unlink()
        linked = before / "deep"
        linked.symlink_to(tmp_path / "elsewhere")
    was, leads_to = state(tmp_path / "elsewhere"), linked.readlink()
    words = REMOVE if command == "remove" else ("-o", out)

    done = run(command, before, *words, code=ExitCode.INCOMPLETE)

    assert done["files_left"] == [f"{linked}: {WHY}"]
    assert (linked.readlink(), state(tmp_path / "elsewhere")) == (leads_to, was)
    assert [path.name for path in out.glob("*.gz")] == ["one.warc.gz"] * out.exists()
    if command == "remove":  # a revisit of what leaves may be behind the link
        assert not done["records"]


@pytest.mark.parametrize("command", ["remove", "manifest", "dedupe", "convert"])
def test_a_directory_with_only_a_link_is_not_done(linked, tmp_path, command):
    (linked.parent / "one.warc.gz").unlink()
    words = REMOVE if command == "remove" else ("-o", tmp_path / "out")

    done = commands.run("warc", command, linked.parent, *words)

    assert done.returncode == ExitCode.INCOMPLETE
    assert f"{linked}: {WHY}" in done.stderr
    assert linked.is_symlink()


def test_a_link_that_is_named_is_read_but_not_rewritten(linked, tmp_path):
    was, one = state(tmp_path / "elsewhere"), linked.with_name("one.warc.gz")
    out, manifests = tmp_path / "out", tmp_path / "m"

    assert run("dedupe", one, linked, "-o", out)["replaced"] == 3
    done = run("remove", one, linked, *REMOVE, code=ExitCode.INCOMPLETE)
    assert (done["files_left"], done["records"]) == ([f"{linked}: {WHY}"], [])
    run("manifest", one, linked, "-o", manifests)
    run("plan", manifests)
    done = run("apply", manifests, "--in-place", code=ExitCode.INCOMPLETE)
    assert (done["files_left"], done["replaced"]) == ([f"{linked}: {WHY}"], 0)

    assert linked.is_symlink()
    assert state(tmp_path / "elsewhere") == was


def test_a_file_with_two_names_is_read_once(linked, tmp_path):
    """Else it would be a copy of itself."""
    (tmp_path / "other").symlink_to(linked.parent)
    one = linked.with_name("one.warc.gz")
    given = [one, tmp_path / "other" / one.name, linked, linked.resolve()]

    assert run("manifest", *given, "-o", tmp_path / "m")["files"] == 2


def test_a_directory_may_be_reached_through_a_link(before, tmp_path):
    (tmp_path / "other").symlink_to(tmp_path)
    (tmp_path / "it").symlink_to(before)

    for given in (tmp_path / "other" / "before", tmp_path / "it"):
        assert run("dedupe", given, "-o", tmp_path / f"o-{given.name}")["files"] == 2
        out = tmp_path / f"{given.name}.wacz"
        assert commands.run("wacz", "create", out, given).returncode == 0
    done = run("remove", tmp_path / "it", *REMOVE)
    assert len(done["records"]) == 2


def test_a_link_to_a_wacz_is_not_rewritten(before, tmp_path):
    made, link = tmp_path / "a.wacz", before / "link.wacz"
    assert commands.run("wacz", "create", made, before).returncode == 0
    link.symlink_to(made)
    was = made.read_bytes()

    for given in (before, link):
        done = run("remove", given, *REMOVE, code=ExitCode.INCOMPLETE)
        assert (done["files_left"], done["records"]) == ([f"{link}: {WHY}"], [])
    assert link.is_symlink()
    assert made.read_bytes() == was


def test_wacz_of_a_directory_has_no_links_of_it(linked, tmp_path):
    out = tmp_path / "a.wacz"
    skipped = f"frontier: {linked} is skipped: {WHY}\n"

    done = commands.run("wacz", "create", out, linked.parent, "--json")

    assert (done.returncode, done.stderr) == (ExitCode.INCOMPLETE, skipped)
    assert json.loads(done.stdout)["captures"] == 2
    done = commands.run("wacz", "create", out, linked, "--json", "--force")
    assert json.loads(done.stdout)["captures"] == 4
    (linked.parent / "one.warc.gz").unlink()
    out.unlink()
    done = commands.run("wacz", "create", out, linked.parent)
    assert done.returncode == ExitCode.INCOMPLETE
    assert done.stderr.startswith(skipped)
    assert not out.exists()


def test_list_names_a_link(linked):
    done = commands.run("warc", "list", linked.parent)

    assert done.returncode == ExitCode.INCOMPLETE
    assert done.stderr == f"frontier: {linked}: {WHY}\n"
    assert len(done.stdout.splitlines()) == 2
    assert len(commands.run("warc", "list", linked).stdout.splitlines()) == 4
