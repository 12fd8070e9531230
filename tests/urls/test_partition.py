import itertools
import sys
from types import ModuleType

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint

from frontier.errors import ConfigurationError
from frontier.node.hosts import Concurrency, HostConcurrency
from frontier.settings.config import Config
from frontier.urls.partition import (
    MAX_HOST,
    QueueAddress,
    QueueAddresses,
    partition_of,
    queue_key,
    shards_of,
)
from tests.harness.cases import each, rows

URL = "http://www.a.example:8080/path?b=2&a=1"
FINGERPRINT = fingerprint(Request(URL))


def place(url=URL, **settings):
    config = Config.from_settings(
        {f"FRONTIER_{k.upper()}": settings[k] for k in settings}
    )
    return QueueAddresses(config).of(url, fingerprint(Request(url)))


@pytest.fixture
def own(monkeypatch):
    """Make a function the queue key of a project's module."""

    def own(function):
        module = ModuleType("a_project")
        module.key = function
        function.__module__, function.__qualname__ = "a_project", "key"
        monkeypatch.setitem(sys.modules, "a_project", module)
        return function

    return own


def test_the_partition_is_that_of_the_queue_key():
    for kind, key in {"host": "www.a.example:8080", "domain": "a.example"}.items():
        assert place(queue_key=kind) == QueueAddress(key, partition_of(key, 1024))


@each(
    ("slot", "settings", "suffix"),
    [
        ("fast", {}, "~fast"),
        ("fast", {"queue_key": "domain"}, "~fast"),
        ("fast", {"host_shards": 4}, ""),
        *((slot, {}, "") for slot in ("www.a.example", "a\nb", "x" * 256, 5)),
    ],
)
def test_a_slot_has_a_queue_of_its_own_in_the_partition_of_its_host(
    slot, settings, suffix
):
    found = place(**settings)
    address = QueueAddresses(Config(**settings)).of(URL, FINGERPRINT, slot)
    assert address == found._replace(queue_key=found.queue_key + suffix)


def test_the_shards_of_a_host_share_its_urls_evenly():
    found = [
        place(f"http://a.example/{n}", host_shards=4).queue_key for n in range(400)
    ]

    assert set(found) == {f"a.example#{shard}" for shard in range(4)}
    assert all(70 < found.count(shard) < 130 for shard in set(found))


def test_shards_are_spread_evenly_over_the_partitions():
    found = sorted(shard.partition for shard in shards_of("a.example", 256, 1024))

    assert {b - a for a, b in itertools.pairwise(found)} == {4}
    assert len({shard.partition for shard in shards_of("a.example", 8, 4)}) == 4


def test_node_gets_its_share_of_the_concurrency_of_a_sharded_host():
    whole = Concurrency(per_host=8)

    def sent(share, **options):
        return HostConcurrency(Config(**options), whole, lambda: share).sent()

    assert [sent(share, host_shards=64) for share in (1.0, 0.24, 0.5, 0)] == [
        8,
        2,
        4,
        1,
    ]
    assert sent(0.33, host_shards=64) == 2
    assert sent(0.24) == 8


def test_a_shard_goes_by_the_fingerprint():
    other = "http://www.a.example:8080/path?a=1&b=2"

    assert place(host_shards=64) == place(other, host_shards=64)


def test_a_callable_may_be_given_itself_or_by_its_path(own):
    function = own(lambda url: url.rpartition("?")[0])

    expected = QueueAddress(
        "http://www.a.example:8080/path", place(queue_key=function)[1]
    )
    assert place(queue_key=function) == expected
    assert place(queue_key="a_project.key") == expected


def test_a_callable_that_says_no_queue_key_is_named_once_and_the_host_used(own, caplog):
    made = iter([None, "", "a\nb", "x" * 256, 7])
    own(lambda _: next(made))  # and then it raises
    places = QueueAddresses(Config(queue_key="a_project.key"))

    for n in range(6):
        assert places.of(f"{URL}{n}", FINGERPRINT).queue_key == "www.a.example:8080"
    (record,) = caplog.records
    assert "FRONTIER_QUEUE_KEY = a_project.key" in record.getMessage()
    assert URL in record.getMessage()


def test_a_path_that_leads_to_no_callable_is_an_error():
    for path in ("no_module.key", "sys.no_name", "sys.path"):
        with pytest.raises(ConfigurationError, match=f"FRONTIER_QUEUE_KEY = '{path}'"):
            place(queue_key=path)
    for value in ("hosts", "", 7, "a..b"):
        with pytest.raises(ConfigurationError, match="host, domain, or a module"):
            place(queue_key=value)


KEYS = rows("""
    http://www.a.org/x           www.a.org       a.org
    https://WWW.A.org/x          www.a.org       a.org
    http://a.co.uk               a.co.uk         a.co.uk
    http://x.y.a.co.uk/          x.y.a.co.uk     a.co.uk
    http://a.example:80/         a.example       a.example
    https://a.example:443/       a.example       a.example
    https://a.example:80/        a.example:80    a.example
    http://a.example:8080/       a.example:8080  a.example
    http://a.example./x          a.example       a.example
    http://user:pw@a.example/    a.example       a.example
    http://user:p@a.example:81/  a.example:81    a.example
    http://127.0.0.1:8000/       127.0.0.1:8000  127.0.0.1
    http://[::1]:8000/           ::1:8000        ::1
    http://localhost/            localhost       localhost
    http://a.example?x=/b/c      a.example       a.example
    http://a.example             a.example       a.example
""")


@each(("url", "host", "domain"), [*KEYS, ("file:///etc/passwd", "", "")])
def test_a_queue_key_is_the_host_or_the_domain(url, host, domain):
    assert queue_key(url, "host") == host
    assert queue_key(url, "domain") == domain


def test_a_host_that_cannot_be_is_cut():
    assert len(queue_key(f"http://{'a' * 5_000}/", "host")) == MAX_HOST
