import json
import math
import socket
import sys
from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from scrapy.settings import Settings

from frontier.errors import ConfigurationError
from frontier.model import Order
from frontier.node.archiving import rules_of, warcinfo_fields
from frontier.settings.config import Config
from frontier.settings.values import end_ms
from frontier.urls.canon.rulesets import named
from frontier.warc.records import warcinfo
from tests.harness.cases import each
from tests.warc.samples import an_exchange

NAMES = ["FRONTIER_" + field.name.upper() for field in fields(Config)]


def read(**settings):
    return Config.from_settings(
        {f"FRONTIER_{k.upper()}": v for k, v in settings.items()}
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("postgresql://me:s3cret@db/feeds?sslpassword=s3cret", "postgresql://db/feeds"),
        ("postgresql://me:s3cret/?@#@db/feeds", "postgresql://db/feeds"),
        ("sqlite:///feeds.db", "sqlite:///feeds.db"),
        ("conf/feeds.toml", "conf/feeds.toml"),
    ],
)
def test_no_archive_has_the_password_of_the_sites(given, kept):
    config = read(feeds=given)

    fields = warcinfo_fields(config, "c", named("scrapy"), {})
    assert fields["FRONTIER_FEEDS"] == kept
    assert "s3cret" not in str(fields)


def test_every_default_is_a_value_that_can_be_given():
    defaults = Config()
    given = {
        f"FRONTIER_{f.name.upper()}": getattr(defaults, f.name) for f in fields(Config)
    }

    assert Config.from_settings({**given, "FRONTIER_NODE_ID": "n"}) == Config(
        node_id="n"
    )


def test_every_setting_in_effect_can_be_given_again_as_text():
    rules = ["mime:text/*", "status:5xx", r"url:\.pdf$"]
    servers = ["https://me:pass@web.archive.org/cdx/search/cdx", "http://a:8080/b?c=d"]
    config = read(
        node_id="n",
        order="dfs",
        partitions=16,
        warc_exclude=rules,
        revisit_cdx_servers=servers,
        warc_info={"operator": "A library"},
    )
    text = config.as_settings()

    assert sorted(text) == sorted(NAMES)
    assert Config.from_settings(text) == config


def test_strings_as_the_command_line_gives_them_are_parsed():
    settings = Settings()
    for name, value in {
        "ENABLED": "0",
        "BLOOM_CAPACITY": "50000",
        "BLOOM_ERROR_RATE": "1e-4",
        "KEEP_ALIVE": "yes",
        "LEASE_TTL": "2.5",
        "ORDER": "DFS",
        "SEEN_TIERS": "set, recent",
        "STORE_DIR": "/var/f",
    }.items():
        settings.set(f"FRONTIER_{name}", value, "cmdline")

    config = Config.from_settings(settings)

    assert config == Config(
        node_id=config.node_id,
        enabled=False,
        bloom_capacity=50_000,
        bloom_error_rate=1e-4,
        keep_alive=True,
        lease_ttl=2.5,
        order=Order.DFS,
        seen_tiers=("recent", "set"),
        store_dir=Path("/var/f"),
    )


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (None, math.inf),
        ("", math.inf),
        (0, 1_000),
        ("90", 91_000),
        (1.5, 2_500),
        ("1h 30m", 5_401_000),
        ("2027-03-01T00:00:00Z", 1_803_859_200_000),
        (datetime(2027, 3, 1, tzinfo=UTC), 1_803_859_200_000),
        ("2027-03-01T01:00+01:00", 1_803_859_200_000),
    ],
)
def test_the_end_of_a_crawl_is_a_date_or_counts_from_its_beginning(value, ms):
    assert end_ms(read(RECRAWL_UNTIL=value).recrawl_until, 1_000) == ms


TIMES = [
    "backoff_max",
    "backoff_min",
    "backoff_retry_after_max",
    "backoff_unreachable_max",
    "backoff_unreachable_min",
    "busy_max",
    "commit_every",
    "crawl_delay_max",
    "feeds_refresh",
    "lease_ttl",
    "recrawl_interval",
    "recrawl_max",
    "recrawl_min",
    "revisit_cdx_timeout",
    "store_wait",
    "warc_max_seconds",
    "worker_seconds",
]


@each(
    ("text", "seconds"),
    [("90", 90), (" 2m ", 120), ("1m 30s", 90), ("2 minutes", 120), (100.5, 100.5)],
)
@each("name", TIMES)
def test_a_setting_that_is_a_time_is_written_as_one(name, text, seconds):
    assert getattr(config_with(name, text), name) == seconds


@each("text", ["1x", "", "soon", "nan", "inf", "-1s", True, None])
@each("name", TIMES)
def test_invalid_time_is_refused_by_every_time_setting(name, text):
    with pytest.raises(ConfigurationError, match=rf"{name.upper()} = .*such as 1h 30m"):
        config_with(name, text)


def config_with(name, value):
    """A `Config` with one setting, and limits above and below it that allow it."""
    least, most = name.removesuffix("_max") + "_min", name.removesuffix("_min") + "_max"
    others = {
        one: limit
        for one, limit in ((least, 1), (most, 10_000))
        if one != name and one in TIMES
    }
    return read(**{one.upper(): said for one, said in {**others, name: value}.items()})


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("FRONTIER_PARTITION", "FRONTIER_PARTITIONS"),
        ("FRONTIER_LEASE_TLL", "FRONTIER_LEASE_TTL"),
        ("FRONTIER_WARC_DIRECTORY", "FRONTIER_WARC_DIR"),
        ("FRONTEIR_WARC_DIR", "FRONTIER_WARC_DIR"),
    ],
)
def test_an_unknown_setting_is_refused_and_the_near_one_is_named(name, near):
    with pytest.raises(ConfigurationError, match=rf"{name} is not .* mean {near}\?"):
        Config.from_settings({name: 1})


@pytest.mark.parametrize("name", ["FRONTIER_" + "A" * 10**5, "FRONTIER_EVIL"])
def test_a_setting_near_to_nothing_gets_no_advice(name):
    with pytest.raises(ConfigurationError) as caught:
        Config.from_settings({name: 1})

    assert "did you mean" not in str(caught.value)
    assert len(str(caught.value)) < 5_000


def test_settings_of_others_are_left_alone():
    assert Config.from_settings({"FRONTIERS": 1, "REDIS_URL": "x", "BOT_NAME": "b"})


def test_scrapys_settings_may_be_none_which_is_0_to_scrapy():
    given = dict.fromkeys(["RETRY_TIMES", "DOWNLOAD_DELAY", "RETRY_ENABLED"])
    assert Config.from_settings(given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENABLED", "maybe"),
        ("BLOOM_CAPACITY", 0),
        ("BLOOM_CAPACITY", "many"),
        ("BLOOM_CAPACITY", 10**12 + 1),
        ("BLOOM_CAPACITY", float("inf")),
        ("BLOOM_CAPACITY", None),
        ("BLOOM_ERROR_RATE", 0),
        ("BLOOM_ERROR_RATE", 1),
        ("BLOOM_ERROR_RATE", "nan"),
        ("BLOOM_ERROR_RATE", [1]),
        ("CRAWL_ID", "a b"),
        ("CRAWL_ID", "a/b"),
        ("CRAWL_ID", "a:b"),
        ("CRAWL_ID", "a\n"),
        ("CRAWL_ID", "-a"),
        ("CRAWL_ID", "{a}"),
        ("COLLECTION", "é"),
        ("COLLECTION", "h"),
        ("CANON_RULES", "evil.so"),
        ("ITEM_MODULES", "../evil"),
        ("LEASE_TTL", 0.49),
        ("LEASE_TTL", "inf"),
        ("LEASE_TTL", "nan"),
        ("LEASE_TTL", "-3"),
        ("NAMESPACE", ""),
        ("NAMESPACE", "n" * 101),
        ("NAMESPACE", "{x}"),
        ("NAMESPACE", "x\n"),
        ("NODE_ID", "a/b"),
        ("NODE_ID", "a" * 1_000),
        ("NODE_WEIGHT", 0),
        ("NODE_WEIGHT", 1.5),
        ("ORDER", "random"),
        ("PARTITIONS", 0),
        ("PARTITIONS", 16385),
        ("PARTITIONS", "1e3"),
        ("PARTITIONS", "9" * 5_000),
        ("PARTITIONS", [4]),
        ("QUEUE_KEY", "hosts"),
        ("QUEUE_KEY", ["host"]),
        ("RECRAWL_UNTIL", "2027-03-01T00:00:00"),
        ("RECRAWL_UNTIL", "soon"),
        ("RECRAWL_UNTIL", -1),
        ("RECRAWL_UNTIL", [1]),
        ("RUN_ID", "\x1b[31m"),
        ("SEEN_RECENT_SIZE", -1),
        ("SCHEMES", "http https:"),
        ("SCHEMES", "1http"),
        ("SEEN_TIERS", ""),
        ("SEEN_TIERS", "set,set"),
        ("SEEN_TIERS", ["bloom", "cuckoo"]),
        ("SEEN_TIERS", 3),
        ("STORE_DIR", ""),
        ("STORE_DIR", None),
        ("WARC_EXCLUDE", "url:(["),
        ("WARC_FSYNC", "sometimes"),
        ("WARC_INFO", "[" * 100_000),
        ("WARC_MAX_BYTES", 999),
        ("WARC_UPLOAD", "not a url"),
    ],
)
def test_a_wrong_value_is_refused_by_the_settings_name(name, value):
    with pytest.raises(ConfigurationError, match=f"^FRONTIER_{name} = ") as caught:
        read(**{name: value})
    assert len(str(caught.value)) < 5_000


def test_a_tier_that_does_not_exist_is_named_with_those_that_do():
    with pytest.raises(
        ConfigurationError, match="no tier 'cuckoo'.*recent, bloom, set"
    ):
        read(SEEN_TIERS="bloom,cuckoo")


def test_tiers_stand_in_the_order_in_which_they_are_asked():
    assert read(SEEN_TIERS="set,bloom,recent").seen_tiers == ("recent", "bloom", "set")


def test_bloom_is_there_for_sets_that_may_be_given_up():
    assert read().seen_tiers == ("recent", "set")
    assert read(SEEN_SET_MAX_BYTES=1).seen_tiers == ("recent", "bloom", "set")
    limited = read(SEEN_SET_MAX_BYTES=1, SEEN_TIERS="set")
    assert limited.seen_tiers == ("bloom", "set")
    with pytest.raises(ConfigurationError, match="needs the tier set"):
        read(SEEN_SET_MAX_BYTES=1, SEEN_TIERS="recent,bloom")


def test_nodes_without_a_name_get_different_ones():
    first, second = read().node_id, read().node_id

    assert first != second
    assert read(NODE_ID=first).node_id == first


def test_a_configuration_never_changes():
    with pytest.raises(FrozenInstanceError):
        Config().partitions = 3


def test_a_preset_gives_what_is_not_given():
    preset = read(revisit_preset="deduplicator-3.0")
    assert (preset.digest, preset.revisit_match) == ("sha1", "url+digest")
    assert preset.revisit_mime_exclude == ("text/*",)

    mixed = read(revisit_preset="deduplicator-3.0", revisit_match="digest")
    assert (mixed.digest, mixed.revisit_match) == ("sha1", "digest")


HTML, PLAIN, IMAGE, NONE = "text/html", "text/css", "image/png", ""
EVERY = {(HTML, 200), (PLAIN, 200), (IMAGE, 200), (NONE, 200), (IMAGE, 404)}


@pytest.mark.parametrize(
    ("preset", "left_out"),
    [
        ("", {(IMAGE, 404)}),
        ("browsertrix", set()),
        ("deduplicator", EVERY - {(IMAGE, 200)}),
        ("deduplicator-3.0", EVERY - {(IMAGE, 200)}),
        ("iceland", {(HTML, 200), (NONE, 200), (IMAGE, 404)}),
        ("iceland-weekly", {(NONE, 200), (IMAGE, 404)}),
    ],
)
def test_a_preset_looks_up_what_its_original_does(preset, left_out):
    policy = rules_of(read(revisit_preset=preset)).policy
    looked_up = {
        (mime, status)
        for mime, status in EVERY
        if policy(
            an_exchange(
                status=status,
                response_head=b"HTTP/1.1 %d X\r\n" % status
                + (b"Content-Type: %s\r\n\r\n" % mime.encode() if mime else b"\r\n"),
            )
        )
    }
    assert EVERY - looked_up == left_out


def test_statuses_are_numbers_and_classes():
    policy = rules_of(read(revisit_statuses="2XX, 404")).policy
    found = [n for n in range(100, 600) if policy(an_exchange(status=n))]

    assert found == [*range(200, 300), 404]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("revisit_preset", "norway", "must be one of"),
        ("revisit_statuses", "200,ok", "such as 4xx"),
        ("revisit_statuses", "20", "such as 404"),
        ("revisit_statuses", "20x", "such as 4xx"),
        ("revisit_mime_exclude", "text/*, a;b", "'a;b'"),
        ("revisit_read_collections", "a,+b", "letters"),
        ("digest", "crc32", "must be one of"),
        ("revisit_cdx_servers", "http://a.org/cdx file:///etc", "'file:///etc'"),
        ("revisit_cdx_servers", "https://a.org:port/cdx", "'https://a.org:port/cdx'"),
        ("revisit_cdx_servers", ["http:///cdx"], "URL of http or https"),
        ("revisit_cdx_servers", "http://[::1/", "Invalid IPv6 URL"),
        ("collection_redis_url", "localhost:6379", "redis://host:6379/0"),
        ("revisit_cdx_timeout", 0, "from 0.001 to 300 seconds"),
    ],
)
def test_a_wrong_policy_is_named(name, value, message):
    with pytest.raises(ConfigurationError, match=message) as caught:
        read(**{name: value})

    assert f"FRONTIER_{name.upper()}" in str(caught.value)


def test_a_wacz_cannot_be_made_of_files_that_are_taken_away():
    taken = {"warc_upload": "s3://a/b", "warc_upload_remove": True}
    with pytest.raises(ConfigurationError, match="FRONTIER_WARC_UPLOAD_REMOVE"):
        read(wacz_dir="waczs", **taken)
    assert read(**taken).warc_upload_remove


def test_warcinfo_says_who_crawled_and_how():
    given = {"operator": "Łódź\r\nevil: yes", "robots": "classic"}
    scrapy = {"USER_AGENT": "bot (+http://a.example)", "ROBOTSTXT_OBEY": "1"}
    for info in (given, json.dumps(given)):
        config = read(warc_info=info, warc_upload="ftp://me:hush@a/b?key=hush")
        fields = warcinfo_fields(config, "c-1", named("scrapy"), scrapy)

        assert fields["isPartOf"] == "c-1"
        assert fields["http-header-user-agent"] == scrapy["USER_AGENT"]
        assert fields["robots"] == "classic"
        assert fields["hostname"] == socket.gethostname()
        assert fields["FRONTIER_WARC_UPLOAD"] == "ftp://a/b"
        assert "FRONTIER_WARC_INFO" not in fields
        block = b"".join(warcinfo("f", "2026-01-01T00:00:00Z", fields).parts)
        assert "operator: Łódź\\r\\nevil: yes\r\n".encode() in block
    ignoring = warcinfo_fields(read(), "c-1", named("scrapy"), {})
    assert ignoring["robots"] == "ignore"
    assert "http-header-user-agent" not in ignoring


@pytest.mark.parametrize("wrong", ["[]", "{", {"a b": "c"}, {"a": 1}, 7])
def test_invalid_warcinfo_setting_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="FRONTIER_WARC_INFO"):
        read(warc_info=wrong)


def test_schemes_and_names_are_between_commas_or_spaces():
    config = read(SCHEMES="HTTP, ftp  s3", STORED_META="proxy")

    assert (config.schemes, config.stored_meta) == (("http", "ftp", "s3"), ("proxy",))
    assert read(SCHEMES=["data"], STORED_META="").schemes == ("data",)
    assert read().schemes == ("http", "https")


def test_lists_are_normalised():
    config = read(revisit_mime_exclude=["Text/*", " image/png"], revisit_statuses=404)

    assert config.revisit_mime_exclude == ("text/*", "image/png")
    assert config.revisit_statuses == ("404",)


def test_a_digest_whose_package_is_missing_is_refused_at_the_start(monkeypatch):
    monkeypatch.setitem(sys.modules, "blake3", None)

    with pytest.raises(ConfigurationError, match=r"pip install .*\[blake3\]"):
        rules_of(read(digest="blake3"))
    with pytest.raises(ConfigurationError, match=r"REVISIT_DIGESTS = 'blake3'"):
        rules_of(read(revisit_digests="sha1,blake3"))
    assert rules_of(read(revisit_digests="sha256,sha1")).further == ("sha1",)
    assert rules_of(read(digest="sha1")).algorithm == "sha1"


def test_a_setting_that_was_removed_says_what_to_use():
    with pytest.raises(ConfigurationError, match="`frontier dashboard` serves"):
        read(DASHBOARD_PORT="8350")
