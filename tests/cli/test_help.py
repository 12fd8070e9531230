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


@each("line", EXAMPLES)
def test_an_example_is_of_a_command_and_of_options_that_exist(line):
    _, noun, verb, *arguments = shlex.split(line.partition(" < ")[0])

    leaf((noun, verb)).make_context(verb, arguments)
