"""Real processes, killed at points that are drawn, end where undisturbed ones do."""

import json
import os
import random
import secrets
import signal

import pytest

from tests.collection.samples import (
    digest,
    line,
    make_manifest,
    make_wacz,
    resource,
    revisit,
)

DIGESTS = 15_000
KILLS = 3


@pytest.fixture
def dice():
    """Other points of time in every run; a test that fails shows the seed."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def big_manifest(tmp_path_factory):
    """Three WACZ files of two crawls, with revisits before and after originals."""
    home = tmp_path_factory.mktemp("big")
    digests = [digest(n) for n in range(12_000)]
    found = []
    for name, crawl, numbers in (
        ("a1", "a", range(6_000)),
        ("a2", "a", range(4_000, 9_000)),
        ("b1", "b", range(8_000, 12_000)),
    ):
        lines = [line(n, digest=digests[n]) for n in numbers]
        lines += [revisit(n, of=(n * 7) % 12_000) for n in numbers if n % 10 == 0]
        lines += [revisit(n, of=f"never-{name}") for n in (1, 2)]
        found.append(resource(make_wacz(home / f"{name}.wacz", lines), crawl))
    return make_manifest(home / "all.json", found)


def kill_when(process, done, point):
    """Kill *process* when *done* has reached *point*; return whether it lived."""
    while process.is_alive():
        if done() >= point:
            os.kill(process.pid, signal.SIGKILL)
            break
    process.join()
    assert process.exitcode in {0, -signal.SIGKILL}
    return process.exitcode != 0


@pytest.mark.parametrize("compat", [(), ("--compat", "browsertrix")])
def test_an_import(make_index, big_manifest, dice, compat):
    calm, wild = make_index("calm"), make_index("wild")
    calm.put(big_manifest, compat=bool(compat))
    command = ("import", big_manifest, *compat)
    killed = 0

    def digests():
        return wild("HLEN", wild.keys.alldupes())

    for point in sorted(dice.randrange(0, 12_000) for _ in range(KILLS)):
        killed += kill_when(wild.forked(*command), digests, point)
    assert wild.run(*command)[0] == 0

    assert killed >= 1
    assert wild.everything() == calm.everything()


def put_crawl(index, crawl_id, numbers):
    keys = index.keys
    index("SADD", keys.committed(), crawl_id)
    numbers = list(numbers)
    for at in range(0, len(numbers), 1_000):
        part = [(digest(n), n) for n in numbers[at : at + 1_000]]
        flat = [x for d, n in part for x in (d, f"0 20260102030405 http://a/{n} 9")]
        index("HSET", keys.crawl(crawl_id), *flat)
        index("HSET", keys.alldupes(), *[x for d, _ in part for x in (d, crawl_id)])
    index("HSET", keys.counts(crawl_id), "totalUrls", len(numbers), "dupeUrls", 5)
    index("RPUSH", keys.waczs(crawl_id), json.dumps({"filename": f"{crawl_id}.wacz"}))
    index("SADD", keys.done(), f"{crawl_id}.wacz")
    index("HINCRBY", keys.allcounts(), "totalUrls", len(numbers))
    index("HINCRBY", keys.allcounts(), "dupeUrls", 5)


def test_a_purge(make_index, dice, tmp_path):
    calm, wild = make_index("calm"), make_index("wild")
    for index in (calm, wild):
        put_crawl(index, "y", range(DIGESTS))
        put_crawl(index, "x", range(0, DIGESTS, 2))
        put_crawl(index, "z", range(0, DIGESTS, 5))
    listed = [{"path": f"{name}.wacz", "crawlId": name} for name in ("y", "z")]
    command = ("purge", make_manifest(tmp_path / "m.json", listed), "--yes")
    assert calm.run(*command)[0] == 0
    killed = 0

    def gone():
        return DIGESTS - wild("HLEN", wild.keys.alldupes())

    for point in sorted(dice.randrange(1, DIGESTS // 4) for _ in range(KILLS)):
        killed += kill_when(wild.forked(*command), gone, point)
    assert wild.run(*command)[0] == 0

    assert killed >= 1
    assert wild.everything() == calm.everything()
    assert wild.members(wild.keys.committed()) == {"y", "z"}
