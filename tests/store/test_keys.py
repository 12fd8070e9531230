import pytest
import redis.crc

from frontier.store.keys import (
    CollectionKeys,
    CrawlKeys,
    PartitionKeys,
    RegistryKeys,
)

CRAWL = CrawlKeys("ns", "site-1")
PARTITION = CRAWL.partition(3)
ARGUMENTS = {"bloom": [0], "bucket": [0, 0], "ready": ["5:a"]}


def names_of(keys):
    """What every public method and attribute of *keys* names, by its own name."""
    fields = {*type(keys).__slots__, "partition", "prefix"}
    names = {}
    for what in vars(type(keys)).keys() - fields:
        if not what.startswith("_"):
            found = getattr(keys, what)
            arguments = ARGUMENTS.get(what, ["site-1"])
            names[what] = found if isinstance(found, str) else found(*arguments)
    return names


@pytest.mark.parametrize(
    "keys",
    [RegistryKeys("ns"), CRAWL, PARTITION, CollectionKeys(""), CollectionKeys("c")],
)
def test_no_two_keys_have_the_same_name(keys):
    names = names_of(keys)

    assert len(names) >= 2
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("collection", ["", "frontier", "c"])
@pytest.mark.parametrize("namespace", ["frontier", "c"])
def test_a_namespace_and_a_collection_share_no_key(namespace, collection):
    of_crawls = set(names_of(RegistryKeys(namespace)).values())
    of_collection = set(names_of(CollectionKeys(collection)).values())

    assert of_crawls & of_collection == set()


@pytest.mark.parametrize("keys", [CRAWL, PARTITION])
def test_keys_of_a_crawl_or_partition_share_one_cluster_slot(keys):
    slots = {redis.crc.key_slot(name.encode()) for name in names_of(keys).values()}

    assert len(slots) == 1


def test_partitions_spread_over_a_cluster():
    slots = {redis.crc.key_slot(CRAWL.partition(n).counts.encode()) for n in range(64)}

    assert len(slots) > 60


def test_a_queue_may_have_any_name_and_stays_in_its_partition():
    for queue in ("0:a}b", "0:{x}", "-1:[::1]:8080"):
        name = PARTITION.ready(queue)
        assert redis.crc.key_slot(name.encode()) == redis.crc.key_slot(
            PARTITION.lease.encode()
        )


def test_partition_prefixes_differ_by_namespace_crawl_and_number():
    prefixes = {
        CrawlKeys(namespace, crawl).partition(n).prefix
        for namespace in ("a", "b")
        for crawl in ("c-1", "c-11")
        for n in (1, 11)
    }

    assert len(prefixes) == 8
    assert PartitionKeys("{x}:").bucket(1, 11) != PartitionKeys("{x}:").bucket(11, 1)


def test_the_index_has_the_names_that_browsertrix_gives_it():
    assert names_of(CollectionKeys("")) == {
        "allcounts": "allcounts",
        "alldupes": "alldupes",
        "canceled": "canceledcrawls",
        "commit_rounds": "commitrounds:site-1",  # ours
        "committed": "allcrawls",
        "committer": "frontier:committer",  # ours
        "counts": "h:site-1:counts",
        "crawl": "h:site-1",
        "done": "src:d",
        "history": "frontier:history",  # ours
        "importing": "src:at",  # ours
        "minted": "frontier:minted",  # ours
        "owners": "frontier:owners",  # ours
        "uncommitted": "uncommittedcrawls",
        "updated": "last_update_ts",
        "urls": "frontier:urls",  # ours
        "waczs": "c:site-1:wacz",
    }
    assert CollectionKeys("c").alldupes == "c:alldupes"


@pytest.mark.parametrize("name", ["", "c"])
def test_on_a_cluster_the_index_is_in_one_slot(name):
    found = names_of(CollectionKeys(name, tagged=True)).values()

    assert {name.partition("}")[0] for name in found} == {"{collection:" + name}
