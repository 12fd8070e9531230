"""Which settings can be changed while a crawl runs, and what is said of the others."""

import pytest

from frontier.cluster.shared_settings import crawl_settings
from frontier.errors import ConfigurationError
from frontier.settings.config import PREFIX, Config
from frontier.settings.live import LIVE, SCOPE, value_of
from frontier.urls.scope import KINDS
from tests.harness.cases import each

FIXED = crawl_settings(Config())


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("DOWNLOAD_DELAY", "0.5", 0.5),
        ("DOWNLOAD_DELAY", "0", 0.0),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", "3", 3),
        ("CLOSESPIDER_PAGECOUNT", "0", 0),
        ("CLOSESPIDER_TIMEOUT", "1.5", 1.5),
        ("FRONTIER_CRAWL_MAX_BYTES", "1000", 1000),
        ("FRONTIER_TRAP_HOPS", "7", 7),
        ("DEPTH_LIMIT", "2", 2),
        ("scope", "domain", "domain"),
    ],
)
def test_a_value_is_read_as_when_a_node_starts(name, text, value):
    assert value_of(name, text, fixed=FIXED) == value


@each("name", LIVE)
@each("text", ["", "x", "-5", "nan", "9" * 30, "1\n", "0" * 600])
def test_invalid_live_value_is_refused_naming_the_setting(name, text):
    with pytest.raises(ConfigurationError, match=name):
        value_of(name, text)


def test_every_setting_that_nodes_share_is_refused_as_fixed():
    for name in FIXED:
        with pytest.raises(ConfigurationError, match="is fixed when a crawl"):
            value_of(name, "1", fixed=FIXED)


def test_every_other_setting_of_ours_is_refused_as_read_at_the_start():
    others = Config().as_settings().keys() - LIVE.keys() - FIXED.keys()
    assert others
    for name in others:
        with pytest.raises(ConfigurationError, match="is read when|did you mean"):
            value_of(name, "1", fixed=FIXED)


def test_scopes_are_those_that_there_are():
    for kind in KINDS:
        assert value_of(SCOPE, kind) == kind


def test_only_delay_and_concurrency_can_be_set_per_host():
    assert [name for name, live in LIVE.items() if live.by_host] == [
        "DOWNLOAD_DELAY",
        "CONCURRENT_REQUESTS_PER_DOMAIN",
    ]
    with pytest.raises(ConfigurationError, match="--host is for DOWNLOAD_DELAY and"):
        value_of("DEPTH_LIMIT", "1", "a.example")


def test_ours_have_the_parsers_of_the_configuration():
    ours = [name for name in LIVE if name.startswith(PREFIX)]
    fields = Config.__dataclass_fields__
    for name in ours:
        field = fields[name.removeprefix(PREFIX).lower()]
        assert LIVE[name].parser is field.metadata["parser"]
