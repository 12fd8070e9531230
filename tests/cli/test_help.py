"""What the help of each command says, and that all of them have it."""

import shlex
from importlib.metadata import version

from click.testing import CliRunner

from frontier.cli import NOUNS, app
from tests.harness.cases import each

ROOT = app
NESTED = [(n, verb) for n in NOUNS for verb in ROOT.get_command(None, n).commands]
LEVELS = [(), *((name,) for name in ROOT.commands), *NESTED]


def leaf(path):
    found = ROOT
    for name in path:
        found = found.get_command(None, name)
    return found


def run(*arguments):
    return CliRunner().invoke(app, arguments, prog_name="frontier")


@each("path", LEVELS)
def test_each_level_has_help_and_the_version(path):
    for option in ("-h", "--help"):
        done = run(*path, option)
        assert done.exit_code == 0, done.output
        assert "Usage: frontier" in done.output
        assert "arguments:\n  \n" not in done.output
    done = run(*path, "--version")
    assert (done.exit_code, done.output) == (
        0,
        f"frontier {version('frontier-crawl')}\n",
    )


EXAMPLES = [line for path in LEVELS for line in leaf(path).examples]


def test_the_most_used_commands_have_examples():
    used = {tuple(line.split()[1:3]) for line in EXAMPLES}
    for verb in ("run", "status", "seed", "set", "exclude", "end", "delete"):
        assert ("crawl", verb) in used


@each("line", EXAMPLES)
def test_an_example_is_of_a_command_and_of_options_that_exist(line):
    _, noun, verb, *arguments = shlex.split(line.partition(" < ")[0])

    leaf((noun, verb)).make_context(verb, arguments)


@each("noun", ["", *NOUNS])
def test_the_help_of_each_noun_fits_one_screen_and_cuts_no_sentence(noun):
    help_ = run(*filter(None, [noun]), "-h").output

    lines = help_.rstrip().splitlines()
    assert len(lines) <= 24
    assert [line for line in lines[1:] if line.endswith("...")] == []
