import inspect
import re

import pytest

from frontier import errors
from frontier.cli.output import ExitCode
from frontier.errors import FrontierError, LeaseLost, NotSerializable, StoreUnavailable

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


CURE = "check that the server runs, and its URL (REDIS_URL, --redis-url)"


def test_every_error_is_a_frontier_error_and_has_an_exit_code():
    assert all(issubclass(cls, FrontierError) for cls in CLASSES.values())
    assert FrontierError.code == ExitCode.CRAWL_FAILED


@pytest.mark.parametrize(
    ("error", "facts", "text"),
    [
        (
            StoreUnavailable("unix:///s", "Error 2 connecting to /s."),
            {"where": "unix:///s", "reason": "Error 2 connecting to /s."},
            "the store at unix:///s does not answer: Error 2 connecting to /s; " + CURE,
        ),
        (
            StoreUnavailable("h:1", "0 of 1 replicas have its last writes"),
            {"where": "h:1"},
            "the store at h:1 does not answer: 0 of 1 replicas have its last writes",
        ),
        (
            LeaseLost(7, 12),
            {"partition": 7, "token": 12},
            "lease on partition 7 is lost (token 12)",
        ),
        (
            NotSerializable("http://a/", "meta['x']", "is a lock"),
            {"url": "http://a/", "where": "meta['x']", "reason": "is a lock"},
            "http://a/ cannot be stored: meta['x'] is a lock",
        ),
    ],
)
def test_error_messages_follow_from_attributes(error, facts, text):
    assert {name: getattr(error, name) for name in facts} == facts
    assert str(error) == text
