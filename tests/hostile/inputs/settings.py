"""Settings and arguments of commands, as scripts and other people give them."""

import os

from frontier.cli.output import ExitCode
from frontier.errors import ConfigurationError
from frontier.settings.config import Config
from tests.hostile.corpus import hostile, hostile_each, refused
from tests.hostile.making import nested, record, warc

REFUSED = {
    "an-unknown-name": ("FRONTIER_EVIL", 1),
    "a-name-of-a-megabyte": ("FRONTIER_" + "A" * 10**5, 1),
    "infinity": ("FRONTIER_LEASE_TTL", "inf"),
    "not-a-number": ("FRONTIER_LEASE_TTL", "nan"),
    "a-negative-lease": ("FRONTIER_LEASE_TTL", -1),
    "partitions-of-5000-digits": ("FRONTIER_PARTITIONS", "9" * 5_000),
    "partitions-of-a-fraction": ("FRONTIER_PARTITIONS", 1.5),
    "partitions-of-a-list": ("FRONTIER_PARTITIONS", [4]),
    "a-namespace-with-a-brace": ("FRONTIER_NAMESPACE", "{x}"),
    "a-namespace-with-a-line-end": ("FRONTIER_NAMESPACE", "x\n"),
    "a-crawl-that-climbs": ("FRONTIER_CRAWL_ID", "../x"),
    "a-crawl-with-a-colon": ("FRONTIER_CRAWL_ID", "x:y"),
    "a-node-with-a-slash": ("FRONTIER_NODE_ID", "a/b"),
    "a-node-of-a-kilobyte": ("FRONTIER_NODE_ID", "a" * 1_000),
    "a-collection-of-h": ("FRONTIER_COLLECTION", "h"),
    "a-run-with-an-escape": ("FRONTIER_RUN_ID", "\x1b[31m"),
    "tiers-of-nobody": ("FRONTIER_SEEN_TIERS", "evil"),
    "warcinfo-of-100000-levels": ("FRONTIER_WARC_INFO", nested("[", "]", 100_000)),
    "warcinfo-with-a-name-of-two-lines": ("FRONTIER_WARC_INFO", {"a\r\nb": "x"}),
    "rules-of-an-expression-that-is-none": ("FRONTIER_WARC_EXCLUDE", "url:(["),
    "cdx-servers-of-a-file": ("FRONTIER_REVISIT_CDX_SERVERS", "file:///etc/passwd"),
    "cdx-servers-of-brackets": ("FRONTIER_REVISIT_CDX_SERVERS", "http://[::1/"),
    "upload-to-nowhere": ("FRONTIER_WARC_UPLOAD", "not a url"),
    "a-queue-key-of-os": ("FRONTIER_QUEUE_KEY", "os"),
    "modules-that-climb": ("FRONTIER_ITEM_MODULES", "../evil"),
    "canon-rules-of-a-library": ("FRONTIER_CANON_RULES", "evil.so"),
}


@hostile_each("setting", REFUSED)
def _(given, name, value):
    with refused(ConfigurationError, "FRONTIER_"):
        Config.from_settings({name: value})


USAGE = {
    "an-empty-name-of-a-crawl": ["crawl", "status", "--crawl", ""],
    "a-crawl-with-an-escape": ["crawl", "status", "--crawl", "\x1b[31m"],
    "a-crawl-of-a-megabyte": ["crawl", "status", "--crawl", "x" * 10**5],
    "a-surrogate": ["crawl", "status", "--crawl", "\udcff"],
    "a-collection-with-a-brace": ["collection", "status", "--collection", "{x}"],
    "a-crawl-to-commit-with-a-colon": ["collection", "commit", "--crawl", "a:counts"],
    "a-number-of-nodes-below-zero": ["crawl", "run", "--nodes", "-1", "http://a/"],
    "a-url-that-is-none": ["canon", "explain", "http://[::1/"],
    "a-url-with-an-escape": ["canon", "explain", "\x1b]0;owned\x07"],
    "rules-that-are-a-directory": [
        "canon",
        "explain",
        "http://a/",
        "--rules",
        "x.toml",
    ],
    "a-store-of-another-scheme": ["crawl", "list", "--redis-url", "file:///etc/passwd"],
    "a-store-with-an-escape": ["crawl", "list", "--redis-url", "redis://\x1b[31m/"],
    "a-store-with-a-wrong-port": [
        "crawl",
        "list",
        "--redis-url",
        "redis://127.0.0.1:99999",
    ],
    "a-store-of-brackets": ["crawl", "list", "--redis-url", "redis://[::1/"],
    "a-store-that-refuses": [
        "crawl",
        "list",
        "--redis-url",
        "redis://:secret@127.0.0.1:1",
    ],
    "a-journal-that-is-not-there": [
        "crawl",
        "rebuild",
        "--crawl",
        "x",
        "--journal",
        "no",
    ],
    "a-seen-file-that-is-a-directory": ["seen", "import", ".", "--new", "x"],
    "a-wacz-that-is-a-directory": ["wacz", "check", "."],
    "a-warc-that-is-not-there": ["warc", "list", "no.warc.gz"],
    "an-offset-of-words": ["warc", "show", "a.warc.gz:many"],
    "an-offset-of-5000-digits": ["warc", "show", "a.warc.gz:" + "9" * 5_000],
    "an-offset-below-zero": ["warc", "show", "a.warc.gz:-1"],
    "an-offset-within-a-record": ["warc", "show", "a.warc.gz:7"],
    "a-status-of-words": ["warc", "list", "a.warc.gz", "--status", "okay"],
    "a-status-of-5000-digits": ["warc", "list", "a.warc.gz", "--status", "9" * 5_000],
}


@hostile_each("argument", USAGE)
def _(given, words):
    given.file("a.warc.gz", warc(record()))
    (given.directory / "x.toml").mkdir()
    said = given.command(*words, FRONTIER_STORE_WAIT="0")
    assert said.code not in {ExitCode.OK, ExitCode.CRAWL_FAILED}, said
    assert said.err or said.out, said
    assert "secret" not in said.err


@hostile("argument/a-pattern-of-stars")
def _(given):
    long = "http://a.example/" + "a" * 5_000
    path = given.file("a.warc.gz", warc(record(0, WARC_Target_URI=long)))
    said = given.command("warc", "list", path, "--url", "*a" * 30 + "b")
    assert said.code in {ExitCode.OK, ExitCode.NOT_FOUND}


@hostile("argument/a-file-name-with-escapes")
def _(given):
    name = "\x1b]0;owned\x07\n.warc.gz"
    given.file(name, b"garbage")
    for words in (
        ["warc", "list", name],
        ["wacz", "check", name],
        ["warc", "show", name],
    ):
        said = given.command(*words)
        assert said.code != ExitCode.OK


TOLD = {ExitCode.OK, ExitCode.USAGE, ExitCode.INCOMPLETE, ExitCode.FAULTY}


@hostile("argument/a-file-name-that-is-no-text")
def _(given):
    name = os.fsdecode(b"\xff\xfe.warc.gz")
    given.file(name, warc(record()))
    for words in (
        ["warc", "list", name],
        ["wacz", "create", "a.wacz", name],
        ["wacz", "check", name],
        ["collection", "import", name],
    ):
        said = given.command(*words)
        assert said.code in TOLD, said
