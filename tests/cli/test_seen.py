import json

import pytest
from scrapy import Request
from scrapy.utils.request import fingerprint

from frontier.dupefilter import BlockingSeenTest
from frontier.queue.push import TEST, Push
from frontier.seen.config import seen_config
from frontier.seen.seen_set import stored_crawl
from frontier.settings.config import Config
from frontier.store.client import Call
from frontier.store.keys import CrawlKeys
from frontier.urls.fingerprint import seen_hash
from frontier.urls.partition import partition_of, queue_key
from tests.harness import crawls


def complaint(done, code=2):
    assert done.returncode == code, done.stderr
    assert done.stdout == "" or json.loads(done.stdout)["exit_code"] == code
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("frontier: ")
    return done.stderr


def test_a_plan_says_what_it_costs_and_how_to_set_it(frontier):
    done = frontier("seen", "plan", "--urls", "50M", "--error", "1e-6")

    assert done.returncode == 0
    assert "50,000,000 URLs" in done.stdout
    assert "recent,bloom,set" in done.stdout
    assert "432.6 MB" in done.stdout
    assert "15.0 MB on each node" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    settings = {}
    exec(done.stdout.partition("# settings.py")[2], settings)
    assert settings["FRONTIER_BLOOM_CAPACITY"] == 50_000_000
    assert settings["FRONTIER_BLOOM_ERROR_RATE"] == 1e-6
    assert settings["FRONTIER_SEEN_TIERS"] == "recent,set"


def test_a_plan_of_too_many_urls_is_refused(frontier):
    done = frontier("seen", "plan", "--urls", "1T", "--error", "1e-6")

    assert "1,000,000,000,000" in complaint(done)


@pytest.fixture
def here(server, unique):
    """The options that lead to a namespace of this test's own."""
    return ["--redis-url", server.url, "--namespace", f"seen-{unique}"]


@pytest.fixture
def open_crawl(blocking, unique):
    """Make a crawl that has seen URLs, as nodes would; return its id."""
    store = blocking()

    def open_crawl(urls, tiers="recent,bloom,set", crawl_id="one", **given):
        settings = {"FRONTIER_SEEN_TIERS": tiers, "FRONTIER_PARTITIONS": 16, **given}
        made = crawls.make(store, f"seen-{unique}", crawl_id, **settings)
        push_all(store, *made, urls)
        return crawl_id

    return open_crawl


def push_all(store, keys, config, urls):
    """Push *urls* to their partitions; return the verdict of each."""
    pushes = [
        (
            partition_of(queue_key(url, config.queue_key), config.partitions),
            Push(TEST, seen_hash(fingerprint(Request(url))), "0:q", 0, b"", url),
        )
        for url in urls
    ]
    return crawls.push(store, keys, seen_config(config), pushes)


def pages(count, host="a.example", start=0):
    return [f"http://{host}/{n}" for n in range(start, start + count)]


@pytest.fixture
def seen(frontier, here):
    """What ``frontier explain`` says of the tiers that have a URL."""

    def seen(url, *words):
        done = frontier("explain", url, *here, "--json", *words)
        found = json.loads(done.stdout)["evidence"]
        (said,) = (each["text"] for each in found if each["step"] == "seen")
        return said

    return seen


def test_forget_makes_urls_new_again(frontier, shown, here, open_crawl, seen, tmp_path):
    open_crawl(pages(20))
    assert seen("http://A.example/7#x").startswith("yes: the set says yes")
    (tmp_path / "urls.txt").write_text(
        "# these\nhttp://a.example/1\n\nhttp://a.example/2\nhttp://b.example/\n"
    )
    one = frontier("seen", "forget", "http://a.example/7", "--yes", *here, "--json")
    several = shown("seen", "forget", "urls.txt", "--yes", *here)

    said = json.loads(one.stdout)
    assert said.pop("store") == here[1]
    assert said == {
        "crawl_id": "one",
        "urls": 1,
        "not_in_the_set": 0,
        "decided_by_bloom": 0,
        "forgotten": 1,
    }
    assert "until they are restarted" in one.stderr
    found = [several[name] for name in ("urls", "forgotten", "not_in_the_set")]
    assert found == [3, 2, 1]
    assert seen("http://a.example/7").startswith("no: the set says no, Bloom")


def test_forget_prints_its_plan_and_requires_yes(
    frontier, shown, here, open_crawl, seen, tmp_path
):
    open_crawl(pages(20))
    (tmp_path / "urls.txt").write_text("\n".join(pages(1_500, start=10)))
    plan = frontier("seen", "forget", "urls.txt", *here)
    as_json = frontier("seen", "forget", "urls.txt", *here, "--json")

    assert (plan.returncode, as_json.returncode) == (2, 2)
    rows = [line.split() for line in plan.stdout.splitlines()]
    assert rows[0][0] == "store"
    assert rows[1:] == [["crawl", "one"], ["URLs", "1,500"]]
    assert plan.stderr == "frontier: nothing was forgotten; to forget them add --yes\n"
    assert "forgotten" not in json.loads(as_json.stdout)
    assert seen("http://a.example/12").startswith("yes")
    done = frontier("seen", "forget", "urls.txt", "--yes", *here)
    assert done.stdout.splitlines()[-1].split() == ["forgotten", "10"]
    assert shown("seen", "forget", "urls.txt", "--yes", *here)["forgotten"] == 0


def test_forget_asks_on_a_terminal_and_shows_progress(terminal, here, open_crawl):
    open_crawl(pages(20))
    forget = ("seen", "forget", "http://a.example/7", *here)

    code, said = terminal(*forget, answer="n\n")
    assert (code, "Forget 1 URLs of one? [y/N]" in said) == (2, True)
    code, said = terminal(*forget, answer="y\n")
    assert (code, "forgetting" in said) == (0, True)
    code, said = terminal("seen", "export", "one.seen", *here)
    assert (code, "16/16" in said) == (0, True)


def test_urls_decided_by_the_bloom_filter_are_not_forgotten(
    frontier, shown, here, open_crawl, blocking, unique, tmp_path
):
    hosts = {partition_of(f"h{n}.example", 16): f"h{n}.example" for n in range(40)}
    one, other = hosts[1], hosts[2]
    open_crawl([f"http://{one}/", f"http://{other}/"])
    keys = CrawlKeys(f"seen-{unique}", "one")
    blocking().call(Call.command("HSET", keys.partition(1).seen, "era", 1))
    (tmp_path / "both").write_text(f"http://{one}/\nhttp://{other}/\n")
    said = shown("seen", "forget", "both", "--yes", *here)
    alone = frontier("seen", "forget", f"http://{one}/", "--yes", *here)

    assert (said["decided_by_bloom"], said["forgotten"]) == (1, 1)
    assert "cannot forget" in complaint(alone)


@pytest.fixture
def dupefilter(server, unique):
    """Have a duplicate filter alone see URLs; its crawl is called *crawl_id*."""

    def identify(url):
        return fingerprint(Request(url))

    def dupefilter(urls, crawl_id="alone", identify=identify, **given):
        settings = {"REDIS_URL": server.url, **given}
        chosen = {"FRONTIER_NAMESPACE": f"seen-{unique}", "FRONTIER_CRAWL_ID": crawl_id}
        config = Config.from_settings({**chosen, "FRONTIER_PARTITIONS": 16})
        cascade = BlockingSeenTest(config, settings, spider="bare")
        for url in urls:
            cascade.ask(identify(url))
        cascade.close()

    return dupefilter


def test_seen_urls_of_a_dupefilter_are_forgotten(
    shown, here, dupefilter, seen, tmp_path
):
    urls = pages(40)
    dupefilter(urls)
    assert seen(urls[7]) == "yes: the set says yes"
    assert seen("http://a.example/99") == "no: the set says no"
    (tmp_path / "urls").write_text("\n".join(urls[:30]))
    done = shown("seen", "forget", "urls", "--yes", *here)

    assert done["forgotten"] == 30
    assert seen(urls[7], "--crawl", "alone") == "no: the set says no"


def test_seen_set_of_a_dupefilter_is_exported_and_imported(
    frontier, shown, here, dupefilter, open_crawl, seen
):
    dupefilter(pages(40))
    open_crawl([], crawl_id="one")
    out = shown("seen", "export", "f", "--crawl", "alone", *here)
    new = shown("seen", "import", "f", "--new", "next", *here)
    wrong = frontier("seen", "import", "f", "--crawl", "one", *here)
    dupefilter([], crawl_id="next")  # it is joined as any other

    assert (out["exported"], new["imported"]) == (40, 40)
    assert "FRONTIER_QUEUE_KEY 'fingerprint', but 'host'" in complaint(wrong)
    assert seen("http://a.example/7", "--crawl", "next") == "yes: the set says yes"


def test_a_new_crawl_begins_with_what_another_saw(
    frontier, shown, here, open_crawl, blocking, unique, tmp_path
):
    urls = [url for h in range(30) for url in pages(40, f"h{h}.example")]
    urls += pages(5_000)
    open_crawl(urls)
    out = shown("seen", "export", "one.seen", "--crawl", "one", *here)
    done = frontier("seen", "import", "one.seen", "--new", "two", *here, "--json")
    again = frontier("seen", "import", "one.seen", "--crawl", "two", *here)

    assert out["exported"] == len(urls)
    said = json.loads(done.stdout)
    assert (said["imported"], said["seen_already"]) == (len(urls), 0)
    assert "FRONTIER_CRAWL_ID = 'two'" in done.stderr
    assert "imported      0" in again.stdout
    store = blocking()
    crawl = stored_crawl(store, f"seen-{unique}", "two")
    asked = [*urls, *pages(500, start=5_000)]
    verdicts = push_all(store, crawl.keys, crawl.config, asked)
    assert {v for url, v in verdicts.items() if url in set(urls)} == {"s"}
    assert list(verdicts.values()).count("n") == 500
    listed = shown("crawl", "list", *here)["crawls"]
    assert {c["crawl_id"] for c in listed} == {"one", "two"}


def test_a_file_that_does_not_fit_is_refused(
    frontier, here, open_crawl, tmp_path, blocking, unique
):
    open_crawl(pages(900))
    open_crawl([], crawl_id="wide", FRONTIER_PARTITIONS=32)
    open_crawl([], crawl_id="keyed", FRONTIER_QUEUE_KEY="domain")
    open_crawl([], crawl_id="none", tiers="recent")
    open_crawl([], crawl_id="over")
    meta = CrawlKeys(f"seen-{unique}", "over").meta
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
    assert "cut: it is cut off" in broken
    assert "nothing was imported" in broken
    assert not blocking().call(
        Call.command("EXISTS", CrawlKeys(f"seen-{unique}", "three").meta)
    )
    assert not (tmp_path / "g").exists()


def test_fingerprints_of_another_kind_are_refused(
    frontier, here, open_crawl, dupefilter, tmp_path
):
    open_crawl(pages(10))
    dupefilter([])
    assert frontier("seen", "export", "f", *here).returncode == 0
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = mine\n")
    (tmp_path / "mine.py").write_text(
        "class Own:\n"
        "    def fingerprint(self, request):\n"
        "        return request.url.encode()\n"
        "REQUEST_FINGERPRINTER_CLASS = Own\n"
    )

    url = "http://a.example/1"
    for command in (
        ["forget", url, "--yes"],
        ["forget", url, "--crawl", "alone", "--yes"],
        ["export", "g"],
        ["import", "f", "--new", "two"],
    ):
        said = complaint(frontier("seen", *command, *here))
        assert "REQUEST_FINGERPRINTER_CLASS = 'mine.Own', but the crawl" in said
        assert "with 'scrapy.utils.request.RequestFingerprinter'; run this" in said


def test_the_fingerprinter_of_the_project_is_used_for_its_crawls(
    frontier, shown, here, dupefilter, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_{tmp_path.parent.name.replace('-', '_')}"
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = conf\n")
    own = f"{name}.Own"
    (tmp_path / "conf.py").write_text(f"REQUEST_FINGERPRINTER_CLASS = {own!r}\n")
    (tmp_path / f"{name}.py").write_text(
        "class Own:\n"
        "    def fingerprint(self, request):\n"
        "        return request.url.encode()\n"
    )
    dupefilter(pages(3), identify=str.encode, REQUEST_FINGERPRINTER_CLASS=own)
    done = shown("seen", "forget", "http://a.example/1", "--yes", *here)
    (tmp_path / "conf.py").write_text("REQUEST_FINGERPRINTER_CLASS = 'no.Such'\n")
    none = frontier("seen", "forget", "http://a.example/1", *here, "--json")

    assert done["forgotten"] == 1
    assert "REQUEST_FINGERPRINTER_CLASS = 'no.Such': No module" in complaint(none)


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

    assert done.returncode == 7
    assert "300 of 600 URLs were imported; run it again" in done.stderr
