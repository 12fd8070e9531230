import inspect
import re

from frontier import errors
from frontier.cli.output import ExitCode
from frontier.errors import FrontierError

CLASSES = {
    name: cls
    for name, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, Exception)
}


def drawn():
    """Each name in the module's drawing, and the name that it hangs from."""
    parents, path = {}, {}
    for line in errors.__doc__.splitlines():
        if found := re.match(r"^((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)( {2,}|$)", line):
            depth = len(found[1]) // 4 + ("──" in line)
            path[depth] = found[2]
            parents[found[2]] = path[depth - 1] if depth else "Exception"
    return parents


def test_error_tree_in_the_docstring_is_the_class_tree():
    assert drawn() == {name: cls.__base__.__name__ for name, cls in CLASSES.items()}


def test_every_error_is_a_frontier_error_and_has_an_exit_code():
    assert all(issubclass(cls, FrontierError) for cls in CLASSES.values())
    assert FrontierError.code == ExitCode.CRAWL_FAILED
