"""Arguments of commands, as scripts and other people give them."""

import os
import shlex

from frontier.cli.output import ExitCode
from tests.hostile.corpus import hostile, hostile_each
from tests.hostile.making import record, warc

USAGE = {  # name to words of a command
    "an-empty-name-of-a-crawl": "crawl status --crawl ''",
    "a-crawl-with-an-escape": "crawl status --crawl \x1b[31m",
    "a-crawl-of-a-megabyte": "crawl status --crawl " + "x" * 10**5,
    "a-surrogate": "crawl status --crawl \udcff",
    "a-collection-with-a-brace": "collection status --collection {x}",
    "a-crawl-to-commit-with-a-colon": "collection commit --crawl a:counts",
    "a-number-of-nodes-below-zero": "crawl run --nodes -1 http://a/",
    "a-url-that-is-none": "canon explain http://[::1/",
    "a-url-with-an-escape": "canon explain \x1b]0;owned\x07",
    "rules-that-are-a-directory": "canon explain http://a/ --rules x.toml",
    "a-store-of-another-scheme": "crawl list --redis-url file:///etc/passwd",
    "a-store-with-an-escape": "crawl list --redis-url redis://\x1b[31m/",
    "a-store-with-a-wrong-port": "crawl list --redis-url redis://127.0.0.1:99999",
    "a-store-of-brackets": "crawl list --redis-url redis://[::1/",
    "a-store-that-refuses": "crawl list --redis-url redis://:secret@127.0.0.1:1",
    "a-journal-that-is-not-there": "crawl rebuild --crawl x --journal no",
    "a-seen-file-that-is-a-directory": "seen import . --new x",
    "a-wacz-that-is-a-directory": "wacz check .",
    "a-warc-that-is-not-there": "warc list no.warc.gz",
    "an-offset-of-words": "warc show a.warc.gz:many",
    "an-offset-of-5000-digits": "warc show a.warc.gz:" + "9" * 5_000,
    "an-offset-below-zero": "warc show a.warc.gz:-1",
    "an-offset-within-a-record": "warc show a.warc.gz:7",
    "a-status-of-words": "warc list a.warc.gz --status okay",
    "a-status-of-5000-digits": "warc list a.warc.gz --status " + "9" * 5_000,
}


@hostile_each("argument", USAGE)
def _(given, words):
    given.file("a.warc.gz", warc(record()))
    (given.directory / "x.toml").mkdir()
    said = given.command(*shlex.split(words), FRONTIER_STORE_WAIT="0")
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
    for words in ("warc list", "wacz check", "warc show"):
        said = given.command(*words.split(), name)
        assert said.code != ExitCode.OK


TOLD = {ExitCode.OK, ExitCode.USAGE, ExitCode.INCOMPLETE, ExitCode.FAULTY}


@hostile("argument/a-file-name-that-is-no-text")
def _(given):
    name = os.fsdecode(b"\xff\xfe.warc.gz")
    given.file(name, warc(record()))
    for words in ("warc list", "wacz create a.wacz", "wacz check", "collection import"):
        said = given.command(*words.split(), name)
        assert said.code in TOLD, said
