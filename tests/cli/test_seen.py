import json
import subprocess
import sys

import pytest

from frontier.conf import Config
from frontier.errors import LayoutStale
from frontier.fingerprints import of_plain_get
from frontier.hashing import mark, partition_of
from frontier.model import Layout
from frontier.queues.push import TEST, Push, push_call, pushed
from frontier.requests import queue_key
from frontier.runtime.shape import crawl_shape, seen_shape
from frontier.seen.stored import stored_crawl
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.store.scripts import CRAWL_OPEN


def complaint(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("frontier: ")
    return done.stderr


def test_a_plan_says_what_it_costs_and_how_to_set_it(frontier):
    done = frontier("seen", "plan", "--urls", "50M", "--error", "1e-6", "--nodes", "4")

    assert done.returncode == 0
    assert "50,000,000 URLs" in done.stdout
    assert "recent,bloom,set" in done.stdout
    assert "432.6 MB" in done.stdout
    assert "15.0 MB on each node, 60.0 MB on 4" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    settings = {}
    exec(done.stdout.partition("# settings.py")[2], settings)
    assert settings["FRONTIER_BLOOM_CAPACITY"] == 50_000_000
    assert settings["FRONTIER_BLOOM_ERROR_RATE"] == 1e-6
    assert settings["FRONTIER_SEEN_TIERS"] == "recent,bloom,set"


def test_a_plan_is_one_object_in_json(frontier):
    done = frontier(
        *("seen", "plan", "--urls", "1M", "--tiers", "recent,bloom", "--json")
    )

    said = json.loads(done.stdout)
    assert [p["tiers"] for p in said["plans"]] == [["recent", "bloom"]] * 2
    assert [p["one_partition"] for p in said["plans"]] == [False, True]
    assert said["plans"][0]["lost"] < 1_000
    assert said["settings"]["FRONTIER_BLOOM_CAPACITY"] == 1_000_000


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (["--urls", "50X"], "'50X'"),
        (["--urls", "50M", "--error", "2"], "'2'"),
        (["--urls", "50M", "--tiers", "recent,cuckoo"], "'cuckoo'"),
        (["--urls", "1T", "--error", "1e-6"], "1,000,000,000,000"),
        (["--urls", "1M", "--plot", "no/such/dir/x.png"], "no/such/dir/x.png"),
    ],
)
def test_a_plan_names_what_is_wrong(frontier, options, name):
    if "--plot" in options:
        pytest.importorskip("matplotlib")
    assert name in complaint(frontier("seen", "plan", *options))


def test_a_plot_is_a_picture(frontier, tmp_path):
    pytest.importorskip("matplotlib")
    done = frontier("seen", "plan", "--urls", "1M", "--plot", "error.png")

    assert done.returncode == 0, done.stderr
    assert (tmp_path / "error.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_extra_is_named(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None; from frontier.cli import main;"
        "sys.argv[1:] = ['seen', 'plan', '--urls', '1M', '--plot', 'x.png']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
    )

    assert "frontier-crawl[plot]" in complaint(done)


@pytest.fixture
def here(server, unique):
    """The options that lead to a namespace of this test's own."""
    return ["--redis-url", server.url, "--namespace", f"seen-{unique}"]


@pytest.fixture
def open_crawl(blocking, unique):
    """Make a crawl that has seen URLs, as nodes would; return its id."""
    store = blocking()

    def open_crawl(urls, tiers="recent,bloom,set", crawl_id="one", **given):
        config = Config.from_settings(
            {"FRONTIER_SEEN_TIERS": tiers, "FRONTIER_PARTITIONS": 16, **given}
        )
        keys = CrawlKeys(f"seen-{unique}", crawl_id)
        shape = json.dumps(crawl_shape(config))
        store.run(
            [
                Call.to(CRAWL_OPEN, [keys.meta()], [shape, "site"]),
                Call.command("SADD", f"seen-{unique}:crawls", crawl_id),
            ]
        )
        push_all(store, keys, config, urls)
        return crawl_id

    return open_crawl


def push_all(store, keys, config, urls):
    """Push *urls* to their partitions; return the verdict of each."""
    by_partition, verdicts = {}, {}
    for url in urls:
        partition = partition_of(queue_key(url, config.queue_key), config.partitions)
        by_partition.setdefault(partition, []).append((url, mark(of_plain_get(url))))
    for partition, found in by_partition.items():
        layout = Layout()
        for i in range(0, len(found), 500):
            part = found[i : i + 500]
            made = [Push(TEST, m, "0:q", 0, b"") for _, m in part]
            while True:
                place, shape = keys.partition(partition), seen_shape(config)
                try:
                    done = pushed(
                        store.call(push_call(place, shape, layout, made)), made
                    )
                    break
                except LayoutStale as error:
                    layout = error.layout
            layout = done.layout
            verdicts |= dict(zip([u for u, _ in part], done.verdicts, strict=True))
    return verdicts


def pages(count, host="a.example", start=0):
    return [f"http://{host}/{n}" for n in range(start, start + count)]


def test_check_tells_which_tier_has_a_url(frontier, here, open_crawl):
    open_crawl(pages(20))
    known = frontier("seen", "check", "http://A.example/7#x", *here, "--json")
    new = frontier("seen", "check", "http://a.example/99", *here)

    said = json.loads(known.stdout)
    assert (said["seen"], said["set"], said["bloom"]) == (True, True, True)
    assert said["fingerprint"] == of_plain_get("http://a.example/7").hex()
    assert (said["queue_key"], said["decided_by"]) == ("a.example", "set")
    assert said["partition"] == partition_of("a.example", 16)
    assert new.returncode == 0
    assert "no, as the set says" in new.stdout


def test_forget_makes_urls_new_again(frontier, here, open_crawl, tmp_path):
    open_crawl(pages(20))
    (tmp_path / "urls.txt").write_text(
        "# these\nhttp://a.example/1\n\nhttp://a.example/2\nhttp://b.example/\n"
    )
    one = frontier("seen", "forget", "http://a.example/7", *here, "--json")
    several = frontier("seen", "forget", "urls.txt", *here, "--json")
    check = frontier("seen", "check", "http://a.example/7", *here, "--json")

    assert json.loads(one.stdout)["forgotten"] == 1
    assert "until they are restarted" in one.stderr
    said = json.loads(several.stdout)
    assert (said["urls"], said["forgotten"], said["not_in_the_set"]) == (3, 2, 1)
    said = json.loads(check.stdout)
    assert (said["seen"], said["set"], said["bloom"]) == (False, False, True)


def test_a_crawl_with_bloom_alone_cannot_forget(frontier, here, open_crawl):
    open_crawl(pages(20), tiers="recent,bloom")
    done = frontier("seen", "forget", "http://a.example/7", *here)
    check = frontier("seen", "check", "http://a.example/7", *here)

    assert "cannot forget" in complaint(done)
    assert "yes, as the bloom says" in check.stdout
    assert "the crawl has none" in check.stdout


@pytest.mark.parametrize(
    ("command", "name", "code"),
    [
        (["check", "nonsense"], "nonsense", 2),
        (["check", "http://[x/"], "http://[x/", 2),
        (["check", "http://a.example/", "--crawl", "gone"], "gone", 4),
        (["forget", "nofile"], "nofile", 2),
        (["forget", "bad.txt"], "bad.txt:2", 2),
        (["forget", "empty.txt"], "empty.txt", 2),
    ],
)
def test_what_is_wrong_is_named(
    frontier, here, open_crawl, tmp_path, command, name, code
):
    open_crawl(pages(3))
    (tmp_path / "bad.txt").write_text("http://a.example/1\nhttp://a.example/ *\n")
    (tmp_path / "empty.txt").write_text("\n")

    assert name in complaint(frontier("seen", *command, *here), code)
    check = frontier("seen", "check", "http://a.example/1", *here, "--json")
    assert json.loads(check.stdout)["seen"]


def test_a_new_crawl_begins_with_what_another_saw(
    frontier, here, open_crawl, blocking, unique, tmp_path
):
    urls = [url for h in range(30) for url in pages(40, f"h{h}.example")]
    urls += pages(5_000)
    open_crawl(urls)
    out = frontier("seen", "export", "one.seen", "--crawl", "one", *here, "--json")
    done = frontier("seen", "import", "one.seen", "--new", "two", *here, "--json")
    again = frontier("seen", "import", "one.seen", "--crawl", "two", *here)

    assert json.loads(out.stdout)["exported"] == len(urls)
    said = json.loads(done.stdout)
    assert (said["imported"], said["seen_already"]) == (len(urls), 0)
    assert "FRONTIER_CRAWL_ID = 'two'" in done.stderr
    assert "imported      0" in again.stdout
    store, keys = blocking(), CrawlKeys(f"seen-{unique}", "two")
    config = stored_crawl(store, f"seen-{unique}", "two").config
    verdicts = push_all(store, keys, config, [*urls, *pages(500, start=5_000)])
    assert {v for url, v in verdicts.items() if url in set(urls)} == {"s"}
    assert list(verdicts.values()).count("n") == 500
    listed = frontier("crawl", "list", *here, "--json")
    assert {c["crawl_id"] for c in json.loads(listed.stdout)["crawls"]} == {
        "one",
        "two",
    }


def test_a_file_that_does_not_fit_is_refused(
    frontier, here, open_crawl, tmp_path, blocking, unique
):
    open_crawl(pages(900))
    open_crawl([], crawl_id="wide", FRONTIER_PARTITIONS=32)
    open_crawl([], crawl_id="keyed", FRONTIER_QUEUE_KEY="domain")
    open_crawl([], crawl_id="none", tiers="recent")
    open_crawl([], crawl_id="over")
    meta = CrawlKeys(f"seen-{unique}", "over").meta()
    blocking().call(Call.command("HSET", meta, "state", "finished"))
    assert frontier("seen", "export", "f", "--crawl", "one", *here).returncode == 0
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "cut").write_bytes(data[:-5])
    (tmp_path / "project").mkdir()

    def refused(*command):
        return complaint(frontier("seen", *command, *here))

    assert "FRONTIER_PARTITIONS 16, but 32" in refused("import", "f", "--crawl", "wide")
    assert "'host', but 'domain'" in refused("import", "f", "--crawl", "keyed")
    assert "keeps nothing" in refused("import", "f", "--crawl", "none")
    assert "keeps nothing" in refused("export", "g", "--crawl", "none")
    assert "is finished" in refused("import", "f", "--crawl", "over")
    assert "--crawl one" in refused("import", "f", "--new", "one")
    assert "'no name'" in refused("import", "f", "--new", "no name")
    assert "either --crawl" in refused("import", "f")
    broken = refused("import", "cut", "--new", "three")
    assert "cut: it is cut off in the block" in broken
    assert "nothing was imported" in broken
    assert not blocking().call(
        Call.command("EXISTS", CrawlKeys(f"seen-{unique}", "three").meta())
    )
    assert not (tmp_path / "g").exists()


def test_fingerprints_of_another_kind_are_refused(frontier, here, open_crawl, tmp_path):
    open_crawl(pages(10))
    assert frontier("seen", "export", "f", *here).returncode == 0
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = mine\n")
    (tmp_path / "mine.py").write_text(
        "class Own:\n"
        "    def fingerprint(self, request):\n"
        "        return request.url.encode()\n"
        "REQUEST_FINGERPRINTER_CLASS = Own\n"
    )
    done = frontier("seen", "import", "f", "--new", "two", *here)
    check = frontier("seen", "check", "http://a.example/1", *here, "--json")

    assert "'mine.Own' is needed" in complaint(done)
    said = json.loads(check.stdout)
    assert bytes.fromhex(said["fingerprint"]) == b"http://a.example/1"


def test_an_import_that_breaks_off_says_how_far_it_came(
    frontier, here, open_crawl, tmp_path, blocking, unique
):
    open_crawl([*pages(300), *pages(300, "b.example")])
    assert frontier("seen", "export", "f", *here).returncode == 0
    open_crawl([], crawl_id="two")
    store, keys = blocking(), CrawlKeys(f"seen-{unique}", "two")
    last = max(partition_of(host, 16) for host in ("a.example", "b.example"))
    store.call(Call.command("SET", keys.partition(last).seen, "not a hash"))
    done = frontier("seen", "import", "f", "--crawl", "two", *here)

    assert done.returncode == 3
    assert "300 of 600 URLs were imported; repeat it" in done.stderr
