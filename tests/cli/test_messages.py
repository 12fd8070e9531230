"""What cannot be done is one line on stderr, and an exit code that says what."""

import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from frontier.cli import GONE
from frontier.cli.output import ExitCode
from frontier.dedupe.digest import digest_of
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.harness import commands
from tests.harness.commands import one_line
from tests.warc.samples import an_exchange


def run(*words, stdout=None, cwd=None, **environment):
    env = {**os.environ, **environment}
    return commands.run(*words, stdout=stdout, cwd=cwd, env=env)


@pytest.fixture
def web_server():
    """A port that answers, but as a web server does."""

    class Answer(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(100)
            self.request.sendall(b"<html>400 Bad Request</html>")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"redis://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_server_that_says_nothing_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"redis://127.0.0.1:{mute.getsockname()[1]}"
        done = run("crawl", "list", "--redis-url", url)

    assert done.returncode == 3
    assert "does not answer" in one_line(done)


def test_server_other_than_redis_is_reported(web_server):
    done = run("crawl", "list", "--redis-url", web_server)

    assert "is not Redis or Valkey" in one_line(done)
    assert done.returncode == ExitCode.STORE_UNAVAILABLE


@pytest.mark.one_server("its password is set")
def test_missing_or_wrong_password_is_reported(servers):
    server = servers("redis-7", "--maxclients", "99")  # one of its own
    server.configure("requirepass", "secret")
    missing = run("crawl", "list", "--redis-url", server.url)
    wrong = run(
        "crawl", "list", "--redis-url", server.url.replace("//", "//:wrong@", 1)
    )

    assert "wants a password, and none is given" in one_line(missing)
    assert "refuses user or password" in one_line(wrong)
    assert missing.returncode == wrong.returncode == ExitCode.STORE_UNAVAILABLE


@pytest.mark.one_server("a cluster has one database")
def test_missing_database_is_reported(servers):
    url = servers("redis-7").url
    done = run("crawl", "list", "--redis-url", f"{url}?db=99")

    assert "99 has no such database" in one_line(done)
    assert done.returncode == ExitCode.STORE_UNAVAILABLE


@pytest.mark.one_server("an empty one of its own")
def test_a_collection_that_is_not_there_is_not_found(servers):
    url = servers("redis-7").url
    done = run("collection", "status", "--collection", "nosuch", "--redis-url", url)

    assert "there is no collection nosuch" in one_line(done)
    assert done.returncode == ExitCode.NOT_FOUND


@pytest.fixture
def long_results(tmp_path):
    """Commands that read files, and print more than a buffer holds."""
    writer = WarcWriter(WarcConfig(tmp_path, "c-1", "node-1"), lambda: 1.8e9)
    for number in range(150):
        exchange = an_exchange(number, b"<p>text</p>\n" * 1_000)
        writer.append(exchange, digest_of(exchange.response_body))
    writer.close()
    (path,) = tmp_path.iterdir()
    url = "http://example.com/0"
    return {
        "list": ("warc", "list", str(path)),
        "show": ("warc", "show", str(path), url),
        "show --raw": ("warc", "show", str(path), url, "--raw"),
        "explain": ("canon", "explain", url),
    }


@pytest.mark.parametrize("command", ["list", "show", "show --raw", "explain"])
def test_an_output_that_fails_is_not_the_fault_of_what_is_read(long_results, command):
    words = long_results[command]
    with Path("/dev/full").open("w") as full:
        done = run(*words, stdout=full)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:  # as of `| head`
        cut = run(*words, stdout=closed)

    assert one_line(done) == "frontier: the output: No space left on device"
    assert done.returncode == ExitCode.UNWRITABLE
    assert (cut.stderr, cut.returncode) == ("", ExitCode.OK)


def test_a_closed_stream_leads_nowhere():
    line = f"{sys.executable} -m frontier canon explain http://a.example/ <&- >&-"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_characters_outside_the_output_encoding_are_escaped():
    done = run(
        "canon", "explain", "http://example.com/\u00fc", PYTHONIOENCODING="ascii"
    )

    assert done.returncode == 0
    assert "http://example.com/\\xfc" in done.stdout
    assert not done.stderr


def test_a_url_that_the_rules_refuse_is_in_the_exit_code():
    done = run("canon", "explain", "notaurl")

    assert "refused by heritrix.usable: it has no scheme" in done.stdout
    assert done.returncode == ExitCode.FAULTY


@pytest.mark.parametrize("name", GONE)
def test_removed_command_names_its_replacement(name):
    done = run(*name.split(), "x")

    assert done.returncode == ExitCode.USAGE
    assert f"{name!r}: {GONE[name]}" in done.stderr


USAGE, NO_STORE, NOT_FOUND = 2, 3, 4
REFUSED = [
    ("version", USAGE, "--version"),
    ("crawls", USAGE, "one of: 'crawl', 'recrawl'"),
    ("crawl statu", USAGE, "Did you mean 'status'"),
    ("crawl list --namespace a:b", USAGE, "--namespace 'a:b': must be 1 to 100"),
    ("crawl status --hostz", USAGE, "--hosts"),
    ("crawl status x --crawl y", USAGE, "Two crawls were named"),
    ("crawl status --log --hosts", USAGE, "--log cannot be combined"),
    ("crawl status --every 0", USAGE, "'--every': 0.0 is not in the range"),
    ("crawl status --store-dir nowhere", NO_STORE, "the first crawl makes it"),
    ("crawl status --redis-url http://x", USAGE, "unix://PATH, redis+cluster://H"),
    ("crawl list --redis-url redis://127.0.0.1:1/0", NO_STORE, "127.0.0.1:1"),
    ("crawl list --redis-url redis://a --store-dir .", USAGE, "name two stores"),
    ("crawl delete", USAGE, "No crawl was named"),
    ("crawl delete x --collection h", USAGE, "--collection 'h'"),
    ("crawl delete nosuch --yes", NO_STORE, "there is no store"),
    ("crawl requeue", USAGE, "needs either URLs or --all"),
    ("crawl retry", USAGE, "needs either hosts or --all"),
    ("crawl set", USAGE, "give NAME=VALUE, or --unset NAME, or --list"),
    ("crawl items a.jsonl", USAGE, "Missing option '--out'"),
    ("crawl items nowhere.jsonl --out x", NOT_FOUND, "nowhere.jsonl is missing"),
    ("crawl rebuild x", USAGE, "Missing option '--journal'"),
    ("crawl seed", USAGE, "Missing argument 'URL|FILE|-'"),
    ("crawl seed nowhere.txt", USAGE, "neither a URL nor a file"),
    ("recrawl now", USAGE, "Missing argument 'URL|PREFIX'"),
    ("seen plan", USAGE, "Missing option '--urls'"),
    ("seen plan --urls x", USAGE, "write 2000, 50M or 1.5G"),
    ("seen plan --urls 1M --tiers moon", USAGE, "the tiers are recent, bloom, set"),
    ("seen forget nowhere.txt", USAGE, "neither a URL nor a file"),
    ("seen import x", USAGE, "--crawl CRAWL_ID or --new NAME"),
    ("feeds list --feeds nowhere.toml", USAGE, "nowhere.toml: cannot be read"),
    ("collection status --collection h", USAGE, "--collection 'h'"),
    ("collection import x --compat moon", USAGE, "the only value is browsertrix"),
    ("collection import x --digest md4", USAGE, "sha256, sha1, blake3"),
    ("warc list nowhere", NOT_FOUND, "there is no such file"),
    ("warc list .", ExitCode.NOT_FOUND, "no WARC files (.warc.gz, .warc) in ."),
    ("warc dedupe x", USAGE, "Missing option '--out'"),
    ("warc dedupe nowhere --out y", NOT_FOUND, "there is no such file"),
    ("warc apply nowhere", USAGE, "give --out DIR or --in-place"),
    ("wacz create x.zip y", USAGE, "has to end in .wacz"),
    ("wacz create x.wacz nowhere", NOT_FOUND, "nowhere"),
    ("wacz check nowhere.wacz", NOT_FOUND, "there is no such file"),
    ("warc plan nowhere", NOT_FOUND, "frontier warc manifest makes"),
    ("canon explain http://a/ --rules moon", USAGE, "there are scrapy, heritrix"),
    ("explain", USAGE, "Missing argument 'URL'"),
    ("migrate scrapy-redis --spider x", USAGE, "there is no Scrapy project here"),
]


@pytest.mark.parametrize(("words", "code", "error"), REFUSED)
def test_a_refusal_is_one_line_and_json_if_that_is_asked_for(
    words, code, error, tmp_path
):
    done = run(*words.split(), "--json", cwd=tmp_path)

    said = json.loads(done.stdout)
    assert (done.returncode, said["exit_code"]) == (code, code)
    assert error in said["error"]
    assert done.stderr == f"frontier: {said['error']}\n"
    assert list(tmp_path.iterdir()) == []
