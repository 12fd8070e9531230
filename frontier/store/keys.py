"""The name of every key, and the mark by which a crawl's are known.

All keys of one partition share a hash tag, and so do all keys of one crawl, so
that a script may touch them together on Redis Cluster::

    {<namespace>:<crawl id>:<partition>}:<what>
    {<namespace>:<crawl id>}:<what>

A crawl is *born* with a random mark, which its `meta` has and the `counts` of each of
its partitions: without it a store that was emptied, in whole or in part, could not be
told from one in which nothing was queued yet.

The digest index has the names that Browsertrix gives it (`CollectionKeys`), so
that its indexer and its crawler can share the Redis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from frontier.errors import OtherSchema

if TYPE_CHECKING:
    from frontier.store.client import BlockingStore

SCHEMA = 4
"""The version of a crawl's keys and of what is in them. It goes up with each change
that nodes of two versions cannot both work with. Crawls from before there was one
count as 1."""

_COUNTS = ":counts"
_ROUND = re.compile(r"(.+)~([1-9][0-9]{0,14})", re.DOTALL)


def names_a_crawl(text: str) -> bool:
    """Whether a crawl may have the id *text*, whoever says so.

    ``h:<id>`` has its digests and ``h:<id>:counts`` its counts: an id that ends like
    that would name the counts of another crawl, and a purge would delete them. One that
    ends in ``~<number>`` would name a round of another crawl.
    """
    plain = not text.endswith(_COUNTS) and not _ROUND.fullmatch(text)
    return 0 < len(text) <= 2_000 and text.isprintable() and plain


def round_id(crawl_id: str, number: int) -> str:
    """What the round *number* of a crawl is called in its collection."""
    return f"{crawl_id}~{number}"


def round_of(text: str) -> tuple[str, int | None]:
    """The crawl that *text* names, and the number of its round, if it names one."""
    found = _ROUND.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, None)


def check_schema(crawl_id: str, stored: bytes | None) -> None:
    """Refuse a crawl that another version of this package made.

    *stored* is the ``schema`` in its `meta`.

    Raises:
        OtherSchema: It is not ours.
    """
    if stored != b"%d" % SCHEMA:
        raise OtherSchema(crawl_id, schema_said(stored), SCHEMA)


def schema_said(stored: bytes | None) -> str:
    """The schema version *stored*, of unknown origin, as a person reads it."""
    return (
        "1" if stored is None else ascii(stored[:20].decode("utf-8", "replace"))[1:-1]
    )


@dataclass(frozen=True, slots=True)
class RegistryKeys:
    """The keys that outlive a crawl."""

    namespace: str

    def crawls(self) -> str:
        """Set of the ids of all crawls of the namespace."""
        return f"{self.namespace}:crawls"

    def deleted(self) -> str:
        """Set of the marks of crawls that were deleted; see `CrawlKeys`."""
        return f"{self.namespace}:deleted"

    def store(self) -> str:
        """String: a random name of this store, by which collections know its crawls."""
        return f"{self.namespace}:store"

    def collections(self) -> str:
        """Set of the names of the collections that crawls of the namespace joined."""
        return f"{self.namespace}:collections"

    def spider(self, name: str) -> str:
        """Hash ``{serial, open}``: the last number used, the crawl that is open."""
        return f"{self.namespace}:spider:{name}"


@dataclass(frozen=True, slots=True)
class CrawlKeys:
    """The keys of one crawl."""

    namespace: str
    crawl_id: str
    born: str = ""
    """Its mark; empty for a crawl of an older version, which has none."""

    def meta(self) -> str:
        """Hash: the crawl's state and the settings that it was created with."""
        return f"{self._tag()}:meta"

    def nodes(self) -> str:
        """Hash: node id to ``<beat, ms> <weight> <busy 0|1> <process> <number>``."""
        return f"{self._tag()}:nodes"

    def former(self) -> str:
        """Hash: name to ``<beat, ms>`` of processes whose node id another one has."""
        return f"{self._tag()}:former"

    def ended(self) -> str:
        """Hash: ``<node id>/<process>`` to what ran as it ended; expires in a day."""
        return f"{self._tag()}:ended"

    def epoch(self) -> str:
        """Integer; grows when a node joins, leaves or is found dead."""
        return f"{self._tag()}:epoch"

    def membership(self) -> str:
        """List of ``<epoch> <time, ms> <what> <weight> <node>``, the oldest first."""
        return f"{self._tag()}:membership"

    def reports(self) -> str:
        """Hash: node id to the JSON of its last report; ``*`` to the sum of others."""
        return f"{self._tag()}:reports"

    def seed_lists(self) -> str:
        """Hash: digest of a seed list to ``done``, or to how many lines of it are."""
        return f"{self._tag()}:seed_lists"

    def start_lock(self, start_id: str) -> str:
        """String: the node that loads this seed list; expires with its lease."""
        return f"{self._tag()}:start:{start_id}"

    def hints(self, node_id: str) -> str:
        """List of ``<partition> <queue>``: what became ready at this node."""
        return f"{self._tag()}:hints:{node_id}"

    def order(self, node_id: str) -> str:
        """String ``drain`` or ``remove``: what an operator wants of this node."""
        return f"{self._tag()}:order:{node_id}"

    def process(self, name: str) -> str:
        """String: the node of a process that has requests of its own; expires."""
        return f"{self._tag()}:process:{name}"

    def spent(self) -> str:
        """Hash ``{pages, items, errors, bytes, active_ms, active_at}`` of all nodes."""
        return f"{self._tag()}:spent"

    def allowances(self) -> str:
        """Hash: node id to ``<process> <number> <held>``, with a limit only."""
        return f"{self._tag()}:allowances"

    def controls(self) -> str:
        r"""Hash: what was changed while it runs to ``<time, ms> <who>\n<value>``."""
        return f"{self._tag()}:controls"

    def control_log(self) -> str:
        r"""List of ``<version> <time, ms> <verb> <who>\n<what>``, the oldest first."""
        return f"{self._tag()}:control_log"

    def back_off(self) -> str:
        """Hash: host to ``<until, ms> <since, ms> <failures> <reason>``, if shared."""
        return f"{self._tag()}:back_off"

    def addresses(self) -> str:
        """Hash: host to its address, where the queue key is ``ip``."""
        return f"{self._tag()}:addresses"

    def cookies(self) -> str:
        """Sorted set: names of the jars of cookies, scored by their versions."""
        return f"{self._tag()}:cookies"

    def jar(self, name: str) -> str:
        """Hash: JSON ``[domain, path, name]`` to ``<expires, s> <JSON>``, a cookie."""
        return f"{self._tag()}:jar:{name}"

    def sites(self) -> str:
        """Sorted set: names of sites of feeds, scored by when to look at them, ms."""
        return f"{self._tag()}:sites"

    def site(self, name: str) -> str:
        """Hash ``{state, want, config, round, ...}`` of a site, and of its feeds."""
        return f"{self._tag()}:site:{name}"

    def claimed(self, name: str) -> str:
        """Hash: fingerprint of a page of a site's round to the feed that queues it."""
        return f"{self._tag()}:claimed:{name}"

    def failed(self, name: str) -> str:
        """Hash: fingerprint of a page of a site that failed to what is known of it."""
        return f"{self._tag()}:failed:{name}"

    def rounds(self, name: str) -> str:
        """List of a site's last rounds, the newest first."""
        return f"{self._tag()}:rounds:{name}"

    def sitemaps(self) -> str:
        """Hash: URL of a sitemap to the hashes of what it named, 12 bytes each."""
        return f"{self._tag()}:sitemaps"

    def imported(self) -> str:
        """Set of marks of what another scheduler had seen, integers; and -1."""
        return f"{self._tag()}:imported"

    def partition(self, number: int) -> PartitionKeys:
        """The keys of partition *number*."""
        tag = f"{{{self.namespace}:{self.crawl_id}:{number}}}"
        return PartitionKeys(tag, self.born)

    def _tag(self) -> str:
        return f"{{{self.namespace}:{self.crawl_id}}}"


def taken(name: str) -> str:
    """Field of `CrawlKeys.meta`: that key *name* of scrapy-redis was taken over."""
    return f"taken:{name}"


def node_of(holder: bytes) -> bytes:
    """The node id in *holder*, ``<node id>/<process>/<number>``, of a lease."""
    return holder.partition(b"/")[0]


def number_in(keys: CrawlKeys, name: str) -> int | None:
    """The partition of a crawl whose key has *name*; ``None`` if it is of none."""
    start = f"{{{keys.namespace}:{keys.crawl_id}:"
    number = name.removeprefix(start).partition("}:")[0]
    is_one = name.startswith(start) and number.isascii() and number.isdecimal()
    return int(number) if is_one and len(number) < 6 else None


@dataclass(frozen=True, slots=True)
class PartitionKeys:
    """The keys of one partition."""

    tag: str
    born: str = ""
    """The mark of the crawl, which a script looks for in `counts`."""

    @property
    def lease(self) -> str:
        """Hash ``{token, holder}``, which stays; no holder if nobody has it."""
        return f"{self.tag}:lease"

    @property
    def counts(self) -> str:
        """Hash ``{born, ready, pushed, seq, acked, dead, ...}``.

        *born* is the crawl's mark, which each partition has from the start. *ready*,
        *waiting* and *dead* are levels, *pushed* and *acked* only grow, *seq* is the
        last id given to a reservation.
        """
        return f"{self.tag}:counts"

    @property
    def queues(self) -> str:
        """Sorted set of the queues that have ready URLs, scored by -priority."""
        return f"{self.tag}:queues"

    def ready(self, queue: str) -> str:
        """List of the items of *queue*, a ``<priority>:<queue key>``."""
        return f"{self.tag}:ready:{queue}"

    @property
    def due(self) -> str:
        """Sorted set of the buckets of what waits, scored by when they are due, ms."""
        return f"{self.tag}:due"

    def waiting(self, bucket: str) -> str:
        r"""List of ``<queue>\n<item>`` that are not ready before *bucket* is due."""
        return f"{self.tag}:waiting:{bucket}"

    @property
    def reserved(self) -> str:
        r"""Hash: reservation id to ``<token>\n<queue>\n<item>``."""
        return f"{self.tag}:reserved"

    @property
    def started(self) -> str:
        """Set of the ids of reservations that were started; expires in a day."""
        return f"{self.tag}:started"

    @property
    def next_allowed(self) -> str:
        """Hash: queue key to ``<token> <time, ms> <delay, ms>``, when to ask it."""
        return f"{self.tag}:next_allowed"

    @property
    def back_off(self) -> str:
        """Hash: queue key to ``<until, ms> <since, ms> <failures> <reason>``."""
        return f"{self.tag}:back_off"

    @property
    def spent(self) -> str:
        """Hash ``{<what>:<queue key>}`` of *pages*, *bytes* and what was *skipped*."""
        return f"{self.tag}:spent"

    @property
    def groups(self) -> str:
        """Hash: mark of a group of URLs to how many were new, as nodes have told."""
        return f"{self.tag}:groups"

    @property
    def dead(self) -> str:
        r"""List of ``<reason>\n<queue>\n<item>`` that were given up."""
        return f"{self.tag}:dead"

    @property
    def seen(self) -> str:
        """Hash ``{buckets, count, blooms, last, era, ...}``: the seen-set's layout.

        *count* is the number of URLs in the set, *blooms* the number of Bloom
        generations, *last* how many URLs the last of them has, *era* how many
        sets were given up. Then there are *lost_from*, the URLs in Bloom when
        the first was, *given_up*, the URLs of all of them, and *old*, the
        buckets of the last while they are being deleted, and *claims*, 1 if any
        mark is *claimed*.
        """
        return f"{self.tag}:seen"

    @property
    def claimed(self) -> str:
        """Hash: mark whose request one process has, or had, to nothing or deliveries.

        A number says that the process is gone: the next push finds the URL new.
        """
        return f"{self.tag}:claimed"

    @property
    def forced(self) -> str:
        """Set of the ids of forced pushes whose parents are not acked yet."""
        return f"{self.tag}:forced"

    @property
    def items(self) -> str:
        """Hash: digest of an item's id to the mark of the page that it came from."""
        return f"{self.tag}:items"

    @property
    def pushers(self) -> str:
        """Hash: process to ``<number> <time, s> <verdicts>`` of its last push here."""
        return f"{self.tag}:pushers"

    def bloom(self, generation: int) -> str:
        """Bitmap of one Bloom generation; or the server's own filter."""
        return f"{self.tag}:bloom:{generation}"

    def bucket(self, era: int, number: int) -> str:
        """Set of the members, integers, of one bucket of the set of *era*."""
        return f"{self.tag}:set:{era}:{number}"


@dataclass(frozen=True, slots=True)
class CollectionKeys:
    """The keys of a collection's digest index: Browsertrix's own names.

    The default collection has them bare; a named one has its name before each. On a
    Redis Cluster, where Browsertrix cannot be, a hash tag makes them be in one slot.
    """

    collection: str
    tagged: bool = False
    """Whether the store is a cluster."""

    def alldupes(self) -> str:
        """Hash: payload digest to the committed crawl that has its original."""
        return self._name("alldupes")

    def crawl(self, crawl_id: str) -> str:
        """Hash: payload digest to ``<waczIndex> <date> <url> <size>``."""
        return self._name(f"h:{crawl_id}")

    def uncommitted(self) -> str:
        """Set of the ids of crawls whose digests only they themselves see."""
        return self._name("uncommittedcrawls")

    def committed(self) -> str:
        """Set of the ids of crawls whose digests every crawl sees."""
        return self._name("allcrawls")

    def canceled(self) -> str:
        """Set of the ids of crawls whose nodes forget their digests when they end."""
        return self._name("canceledcrawls")

    def counts(self, crawl_id: str) -> str:
        """Hash ``{totalUrls, dupeUrls, conservedSize, totalCrawlSize}`` of a crawl."""
        return self._name(f"h:{crawl_id}{_COUNTS}")

    def allcounts(self) -> str:
        """Hash: the sums of the counts of all committed crawls, and a few more."""
        return self._name("allcounts")

    def waczs(self, crawl_id: str) -> str:
        """List of JSON ``{filename, hash, size}``: the WACZ files of a crawl."""
        return self._name(f"c:{crawl_id}:wacz")

    def done(self) -> str:
        """Set of the names of the sources, or WACZ files, that are in the index."""
        return self._name("src:d")

    def importing(self) -> str:
        """Hash: name of a source whose import has begun to its WACZ index."""
        return self._name("src:at")

    def updated(self) -> str:
        """String: when something was last imported or purged, in ISO 8601."""
        return self._name("last_update_ts")

    def commit_rounds(self, crawl_id: str) -> str:
        """Hash ``{open, committed, at_ms}``: how far a crawl's commit rounds are."""
        return self._name(f"commitrounds:{crawl_id}")

    def committer(self) -> str:
        """String: the random name of who commits a round, or purges; expires."""
        return self._name("frontier:committer")

    def shadow(self, what: str) -> str:
        """What a purge builds, beside the key *what* whose place it takes."""
        return self._name(f"purge:{what}")

    def minted(self) -> str:
        """Set of the ids of crawls whose record ids follow from the index."""
        return self._name("frontier:minted")

    def owners(self) -> str:
        """Hash: crawl id to the random name of the store that it is of."""
        return self._name("frontier:owners")

    def urls(self) -> str:
        """Hash: URL key to ``<crawl> <date> <url> <size>`` of an original."""
        return self._name("frontier:urls")

    def history(self) -> str:
        """Hash: URL key to JSON about the last capture with an ETag or a date."""
        return self._name("frontier:history")

    def _name(self, what: str) -> str:
        if self.tagged:
            return f"{{collection:{self.collection}}}:{what}"
        return f"{self.collection}:{what}" if self.collection else what


def collection_keys(store: BlockingStore, collection: str) -> CollectionKeys:
    """The keys of *collection* on *store*."""
    return CollectionKeys(collection, tagged=not store.alone)
