import os
import socket
from contextlib import closing

import pytest
import scrapy_redis.defaults

from frontier.errors import ConfigurationError, StoreUnavailable
from frontier.store.address import DEFAULTS, address_of, redacted
from frontier.store.client import BlockingStore, Call, Store


@pytest.mark.parametrize(
    ("url", "kind", "servers", "service", "params"),
    [
        ("redis+cluster://h", "cluster", (("h", 6379),), "", {}),
        ("redis+cluster://a:1,b:2/", "cluster", (("a", 1), ("b", 2)), "", {}),
        ("redis+cluster://a:1/0", "cluster", (("a", 1),), "", {}),
        ("redis+cluster://[::1]:7", "cluster", (("::1", 7),), "", {}),
        ("redis+sentinel://s/x", "sentinel", (("s", 26379),), "x", {}),
        (
            "redis+sentinel://a:1,b:2/x/3",
            "sentinel",
            (("a", 1), ("b", 2)),
            "x",
            {"db": 3},
        ),
        (
            "rediss+cluster://me:p%40ss@a:1?socket_timeout=7",
            "cluster",
            (("a", 1),),
            "",
            {"username": "me", "password": "p@ss", "ssl": True, "socket_timeout": 7},
        ),
    ],
)
def test_a_url_may_name_several_servers(url, kind, servers, service, params):
    address = address_of({"REDIS_URL": url})

    assert (address.kind, address.servers, address.service) == (kind, servers, service)
    assert params.items() <= address.params.items()
    assert address_of({"REDIS_PARAMS": {"url": url}}).kind == kind


@pytest.mark.parametrize("cls", [Store, BlockingStore])
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis+cluster://", "must be redis[+]cluster://"),
        ("redis+cluster://a:1,,b:2", "must be redis[+]cluster://"),
        ("redis+cluster://a:port", "must be redis[+]cluster://"),
        ("redis+cluster://a:1/2", "a cluster has only database 0"),
        ("redis+cluster://a:1/0/x", "must be redis[+]cluster://"),
        ("redis://me:s3/@h/x?db=1", "'x' is not a number of a database"),
        ("rediss://h:1/1/2", "'1/2' is not a number of a database"),
        ("redis+sentinel://a:1", "names no service"),
        ("redis+sentinel://a:1/x/y", "'y' is not a number"),
        ("redis+sentinel://a:1/x/1/2", "must be redis[+]sentinel://"),
        ("redis+cluster://a?socket_timeout=soon", "Invalid value"),
    ],
)
def test_invalid_cluster_or_sentinel_url_is_refused(cls, url, reason):
    with pytest.raises(ConfigurationError, match=f"^REDIS_URL = .*: .*{reason}"):
        cls.from_settings({"REDIS_URL": url})


@pytest.mark.parametrize(
    "url",
    [
        "redis://me:s3cret@h:port",
        "redis://:s3cret/x@h",
        "redis://me:s3/cret@x@h:port",
        "http://me:s3cret@h",
        "redis+cluster://me:s3cret@",
        "redis+sentinel://me:s3cret@h",
        "redis+sentinel://me:s3cret/x:@h",
        "redis://h:port?password=s3cret",
        "redis+cluster://h:port?password=s3cret",
    ],
)
def test_no_error_shows_a_password(url):
    with pytest.raises(ConfigurationError) as caught:
        BlockingStore.from_settings({"REDIS_URL": url})
    assert "s3" not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.mark.parametrize(
    "url", ["rediss:/127.0.0.1:1", "redis:h", "redis://", "redis://:1/0", "redis:///0"]
)
def test_a_url_without_a_host_is_not_taken_for_this_machine(url):
    with pytest.raises(ConfigurationError, match=f"REDIS_URL = '{url}': must be "):
        address_of({"REDIS_URL": url})


def test_silence_is_said_to_be_that_of_a_server_without_tls():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"rediss://127.0.0.1:{silent.getsockname()[1]}/0"
        store = BlockingStore.at(address_of({"REDIS_URL": url}, 0.1), repeats=False)
        with closing(store), pytest.raises(StoreUnavailable, match="not speak TLS"):
            store.call(Call.command("PING"))


def test_malformed_parameters_are_not_shown():
    with pytest.raises(ConfigurationError, match="^REDIS_PARAMS: ") as caught:
        BlockingStore.from_settings({"REDIS_PARAMS": '{"password": "s3cret"'})
    assert "s3cret" not in str(caught.value)


def test_a_url_without_secrets_is_shown_whole():
    assert redacted("redis+sentinel://a:1/x") == "redis+sentinel://a:1/x"
    assert redacted("redis://me:s3@h/0?db=1") == "redis://***@h/0?db=1"


@pytest.mark.parametrize("name", ["ssl_ca_certs", "ssl_certfile", "ssl_keyfile"])
@pytest.mark.parametrize("url", ["rediss://h:1/0", "rediss+cluster://h:1"])
def test_files_of_tls_are_looked_at_before_anything_waits_for_them(tmp_path, url, name):
    os.mkfifo(tmp_path / "f")
    (tmp_path / "there").touch()

    for settings in (
        {"REDIS_URL": f"{url}?{name}={tmp_path / 'f'}"},
        {"REDIS_URL": url, "REDIS_PARAMS": {name: str(tmp_path / "f")}},
    ):
        with pytest.raises(ConfigurationError, match=f"{name} = .*it is a FIFO"):
            address_of(settings)
    with pytest.raises(ConfigurationError, match=f"{name} = .*No such file"):
        address_of({"REDIS_URL": f"{url}?{name}=/no/where"})
    assert address_of({"REDIS_URL": f"{url}?{name}={tmp_path / 'there'}"})


def test_connection_defaults_equal_those_of_scrapy_redis():
    theirs = dict(scrapy_redis.defaults.REDIS_PARAMS)
    del theirs["retry_on_timeout"]  # redis warns of it; timeouts are retried

    assert theirs == DEFAULTS
