"""``frontier explain`` on a store and on files that an archive of ours wrote."""

import asyncio
import json

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint

from frontier.explain.checks import REASONS
from frontier.model import Attempt, Found
from frontier.node.archiving import Archive
from frontier.queue.item import encode
from frontier.queue.push import TEST, Push
from frontier.seen.config import seen_config
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import partition_of
from tests.harness import crawls
from tests.warc.samples import NOON, an_exchange

HOME = "http://a.example/"
LINK = Found(HOME, "L", HOME)


class Crawl:
    """A crawl in the store, with queues, and what its nodes have written."""

    def __init__(self, store, server, namespace, directory, tiers):
        settings = {"FRONTIER_PARTITIONS": 16, "FRONTIER_SEEN_TIERS": tiers}
        made = crawls.make(store, namespace, "one-1", **settings)
        self.keys, self.config = made
        self.store, self.server, self.directory = store, server, directory

    def part(self, host="a.example"):
        return self.keys.partition(partition_of(host, 16))

    def push(self, url, host="a.example"):
        queue = f"0:{host}"
        meta = {"frontier_found": [HOME, "L", HOME, 0]}
        item = encode({"url": url, "meta": meta}, queue)
        push = Push(TEST, seen_hash(fingerprint(Request(url))), queue, 0, item)
        pushes = [(partition_of(host, 16), push)]
        crawls.push(self.store, self.keys, seen_config(self.config), pushes)

    def archive(self, exchanges=(), attempts=()):
        """Write them, as a node would."""

        async def write():
            settings = {"FRONTIER_WARC_DIR": str(self.directory)}
            config = Config.from_settings(
                {**settings, "FRONTIER_NAMESPACE": self.keys.namespace}
            )
            self.node = config.node_id
            archive = Archive(config, self.store, "one-1", settings)
            await archive.enter()
            for exchange in exchanges:
                archive.submit(exchange)
            for attempt in attempts:
                archive.submit(attempt)
            await archive.before_ack()
            await archive.close()

        asyncio.run(write())


@pytest.fixture
def crawl(blocking, server, unique, tmp_path):
    def crawl(tiers="recent,set"):
        directory = tmp_path / "warcs"
        directory.mkdir()
        return Crawl(blocking(), server, f"url-{unique}", directory, tiers)

    return crawl


@pytest.fixture
def explain(frontier, server, unique):
    """Ask why a URL was not crawled; return the process and what it said."""

    def explain(url, *words):
        here = ["--redis-url", server.url, "--namespace", f"url-{unique}"]
        done = frontier("explain", url, *here, "--json", *words)
        assert "Traceback" not in done.stderr, done.stderr
        found = json.loads(done.stdout)
        assert found["reason"] in REASONS
        assert done.returncode == (0 if found["sure"] else 6)
        return found

    return explain


def test_files_alone_tell_of_a_fetch_with_and_without_indexes_here_and_elsewhere(
    crawl, explain, tmp_path
):
    made = crawl()
    home = an_exchange(url=HOME, found=Found("", "", ""))
    page = an_exchange(1, url=f"{HOME}page", found=LINK, body=b"<p>page</p>")
    again = an_exchange(2, url=f"{HOME}again", found=LINK, body=b"<p>page</p>")
    made.archive([home, page, again])

    found = explain("HTTP://a.example/again#x")

    assert found["reason"] == "fetched"
    assert f"stored as a revisit of {HOME}page" in found["answer"]
    steps = {one["step"]: one for one in found["evidence"]}
    assert steps["URL"]["text"].startswith("HTTP://a.example/again#x is")
    assert steps["canonical form"]["text"] == f"{HOME}again"
    assert steps["found on"]["text"] == f"{HOME} (L from the seed {HOME})"
    assert steps["attempt"]["source"].endswith(".crawl.log:3")
    where = f"file://{made.directory}"
    elsewhere = explain(f"{HOME}again", "--warcs", where)
    assert elsewhere["answer"] == found["answer"]
    for path in [*made.directory.glob("*.cdxj"), *made.directory.glob("*.log")]:
        path.unlink()
    alone = explain(f"{HOME}again")
    assert alone["answer"] == found["answer"]


def lose_x(made):
    """Lose a URL of a crawl that is seen and queued."""
    made.push(f"{HOME}x")
    made.store.call(Call.command("DEL", made.part().ready("0:a.example")))


def test_missing_logs_and_warcs_are_reported_as_not_looked_at(crawl, explain, tmp_path):
    made = crawl()
    lose_x(made)
    (tmp_path / "empty").mkdir()

    unsure = explain(f"{HOME}x", "--warcs", "empty", "--logs", "gone")

    assert unsure["reason"] == "done"
    told = [gap["what"] for gap in unsure["not_looked_at"] if gap["decides"]]
    assert "gone: there is no such directory or file" in told
    assert "no crawl logs of the crawl were found (empty, gone)" in told
    assert "no WARC files of the crawl were found (empty, gone)" in told
    made.archive(attempts=[Attempt(f"{HOME}x", -9998, 0.0, NOON, LINK)])
    assert explain(f"{HOME}x")["reason"] == "robots"


def test_a_url_whose_node_has_its_files_elsewhere_is_not_sure_and_says_where(
    crawl, explain
):
    made = crawl()
    lose_x(made)
    made.archive([an_exchange(url=f"{HOME}y", found=LINK)])
    report = json.dumps({"opened": 1.0, "requests": 1, "machine": "m2"})
    gaps = []
    for node in ("node-2", made.node):
        made.store.call(Call.command("HSET", made.keys.reports, node, report))

        unsure = explain(f"{HOME}x")

        assert (unsure["reason"], unsure["sure"]) == ("done", False)
        assert unsure["next"] == "give their directories with --warcs, or run it there"
        gaps += [[gap["what"] for gap in unsure["not_looked_at"] if gap["decides"]]]
        made.store.call(Call.command("DEL", made.keys.reports))
    assert gaps == [
        ["WARC files and crawl logs of node-2 on m2"],
        ["the crawl log that has its line: none that was found has it"],
    ]


def test_files_of_kinds_that_are_not_read_are_named_with_what_to_do(
    crawl, explain, tmp_path
):
    crawl()
    for name in (
        "a.wacz",
        "b.arc.gz",
        "c.cdxj.gz",
        "d.cdx",
        *(f"{n}.arc" for n in "pqrst"),
    ):
        (tmp_path / "warcs" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "warcs" / name).write_bytes(b"")

    unsure = explain(f"{HOME}x")

    (gap,) = [one for one in unsure["not_looked_at"] if "kinds" in one["what"]]
    assert gap["what"] == "9 files of kinds that are not read, as warcs/a.wacz"
    assert gap["decides"]


def test_files_of_other_crawls_are_left_out_and_named(crawl, explain):
    made = crawl()
    made.archive([an_exchange(url=f"{HOME}x", found=LINK)])
    for path in made.directory.iterdir():
        path.rename(path.with_name(path.name.replace("one-1-", "one-0-")))

    found = explain(f"{HOME}x")

    assert (found["reason"], found["fetched"]) == ("not_found", False)
    named = {gap["what"]: gap["how"] for gap in found["not_looked_at"]}
    how = "--crawl ID asks about another crawl"
    assert named["3 files of the crawl one-0"] == how


def test_the_scope_of_a_spider_without_that_setting_is_in_its_code(crawl, explain):
    made = crawl()
    report = {"opened": 1.0, "own": {"CLOSESPIDER_PAGECOUNT": "0"}}
    made.store.call(
        Call.command("HSET", made.keys.reports, "node-1", json.dumps(report))
    )

    found = explain(f"{HOME}x")

    named = {gap["what"]: gap for gap in found["not_looked_at"]}
    scope = "the spider has no scope setting; it follows what its code says"
    told = named[f"scope: {scope}"]
    assert told["how"] == "look into its allowed_domains, rules and callbacks"
    assert told["decides"]


def test_hostile_crawl_log_bytes_are_not_printed_raw(crawl, frontier, server):
    made = crawl()
    made.archive(attempts=[Attempt(f"{HOME}x", -5, 0.0, NOON, LINK)])
    (log,) = made.directory.glob("*.crawl.log")
    evil = b"\x1b]0;owned\x07\x1b[2J"
    line = log.read_bytes().rstrip(b"\n")
    log.write_bytes(line.replace(HOME.encode() + b" -", HOME.encode() + evil + b" -"))
    with log.open("ab") as file:
        file.write(evil + b"\n" + b"\xff" * 100_000 + b"\n" + line + evil + b"\n")
    here = ["--redis-url", server.url, "--namespace", made.keys.namespace]

    done = frontier("explain", f"{HOME}x", *here)

    assert done.returncode in (0, 6)
    assert "It was not fetched: it failed" in done.stdout
    assert "lines of crawl logs, which are damaged" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "\x07" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("state", "reason", "text"),
    [
        ("limit", "crawl_limit", "at its limit, 3 pages (CLOSESPIDER_PAGECOUNT)"),
        ("canceled", "crawl_canceled", "an operator canceled the crawl"),
    ],
)
def test_queued_url_is_explained_by_the_state_of_its_crawl(
    crawl, explain, state, reason, text
):
    made = crawl()
    made.push(f"{HOME}x")
    fields = ["state", state, "limit", "pages 3"]
    made.store.call(Call.command("HSET", made.keys.meta, *fields))

    found = explain(f"{HOME}x")

    assert found["reason"] == reason
    assert text in found["answer"]
    (where,) = [one for one in found["evidence"] if one["step"] == "found on"]
    assert where["text"] == f"{HOME} (L from the seed {HOME})"


def test_a_bloom_filter_alone_is_not_believed_to_the_end(crawl, explain):
    made = crawl("recent,bloom")
    lose_x(made)

    found = explain(f"{HOME}x")

    assert (found["reason"], found["sure"]) == ("seen_by_bloom", False)


def test_a_name_in_other_letters_is_the_one_that_is_asked_for(crawl, explain):
    made = crawl()
    made.push("http://xn--bcher-kva.example/a", host="xn--bcher-kva.example")

    found = explain("http://Bücher.example/a")

    assert found["reason"] == "no_node"
    assert found["url"] == "http://xn--bcher-kva.example/a"


def test_invalid_url_or_missing_crawl_is_a_one_line_error(crawl, frontier, server):
    made = crawl()
    here = ["--redis-url", server.url, "--namespace", made.keys.namespace]

    bad = frontier("explain", "http://[::1/", *here)
    gone = frontier("explain", HOME, *here, "--crawl", "none-1")
    scheme = frontier("explain", "ftp://a.example/x", *here)

    assert (bad.returncode, bad.stderr.count("\n")) == (2, 1)
    assert "is not a URL" in bad.stderr
    for typed in ("not-a-url", "a b.example", "mailto:me@a.example", "http:///x", ""):
        done = frontier("explain", typed, *here)
        assert (done.returncode, done.stdout) == (2, ""), typed
        assert done.stderr.startswith(f"frontier: {typed!r} is not a URL: ")
    assert (gone.returncode, gone.stderr.count("\n")) == (4, 1)
    assert "nodes fetch http and https" in scheme.stdout
