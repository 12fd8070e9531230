import pytest

from frontier.cli.output import ExitCode
from frontier.errors import (
    ConfigurationError,
    FrontierError,
    NoStore,
    StoreUnavailable,
    UnknownCrawl,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), ExitCode.USAGE),
        (StoreUnavailable("here", "why"), ExitCode.STORE_UNAVAILABLE),
        (NoStore("here"), ExitCode.STORE_UNAVAILABLE),
        (UnknownCrawl("frontier", "x"), ExitCode.NOT_FOUND),
        (FrontierError("x"), ExitCode.CRAWL_FAILED),
    ],
)
def test_every_error_has_an_exit_code(error, code):
    assert error.code == code
