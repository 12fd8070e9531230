"""The name of every key, and the mark by which a crawl's keys are recognized.

All keys of one partition share a hash tag, and so do all keys of one crawl, so that a
script may touch them together on Redis Cluster::

    {<namespace>:<crawl id>:<partition>}:<what>
    {<namespace>:<crawl id>}:<what>

A crawl is *born* with a random mark, which is in its `meta` and in the `counts` of each
of its partitions: without it a store that was emptied, in whole or in part, could not
be told from one in which nothing was queued yet.

The digest index has the names that Browsertrix gives it (`CollectionKeys`), so that
Browsertrix's indexer and crawler can share the Redis.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from frontier.errors import OtherSchema
from frontier.model import frozen

SCHEMA = 5
"""The version of a crawl's keys and of what is in them. It goes up with each change
that nodes of two versions cannot both work with. Crawls from before there were versions
count as 1."""

T = TypeVar("T")
HASH, LIST, SET, ZSET, STRING = "hash", "list", "set", "zset", "string"
_COUNTS = ":counts"
_OUTLIVING = ("RegistryKeys", "CollectionKeys")
_BY_CRAWL = (
    (re.compile(r"(?:.*:)?c:.*:wacz", re.DOTALL), LIST),
    (re.compile(r"(?:.*:)?(?:h|commitrounds):.*", re.DOTALL), HASH),
    (re.compile(r".*:spider:.*", re.DOTALL), HASH),
)
"""The types of keys of collections and namespaces whose names end with another."""
_TAGGED = re.compile(r"\{([^}]*)\}:([a-z_]+)(?::.*)?", re.DOTALL)
_ROUND = re.compile(r"(.+)~([1-9][0-9]{0,14})", re.DOTALL)


def names_a_crawl(text: str) -> bool:
    """Whether a crawl may have the id *text*, of unknown origin.

    ``h:<id>`` has its digests and ``h:<id>:counts`` its counts: an id that ends in
    ``:counts`` would name the counts of another crawl, and a purge would delete them.
    One that ends in ``~<number>`` would name a round of another crawl.
    """
    plain = not text.endswith(_COUNTS) and not _ROUND.fullmatch(text)
    return 0 < len(text) <= 2_000 and text.isprintable() and plain


def round_id(crawl_id: str, number: int) -> str:
    """The name of round *number* of a crawl in its collection."""
    return f"{crawl_id}~{number}"


def round_of(text: str) -> tuple[str, int | None]:
    """The crawl that *text* names, and the number of its round, if it names one."""
    found = _ROUND.fullmatch(text)
    return (found[1], int(found[2])) if found else (text, None)


def check_schema(crawl_id: str, stored: bytes | None) -> None:
    """Refuse a crawl that another version of this package made.

    *stored* is the ``schema`` in its `meta`.

    Raises:
        OtherSchema: It is not our version.
    """
    if stored != b"%d" % SCHEMA:
        raise OtherSchema(crawl_id, schema_said(stored), SCHEMA)


def schema_said(stored: bytes | None) -> str:
    """The schema version *stored*, of unknown origin, as a person reads it."""
    return (
        "1" if stored is None else ascii(stored[:20].decode("utf-8", "replace"))[1:-1]
    )


class Kind(NamedTuple):
    """What a key has to be, and what its loss costs; empty if nothing."""

    type: str
    cost: str = ""


KINDS: dict[tuple[str, str], Kind] = {}
"""Of each key, by the class that names it and the first word of its name."""


class Key(property):
    """A key that is named after its attribute, or *name*, behind the keys' `prefix`."""

    def __init__(self, type_: str, cost: str = "", *, name: str = "") -> None:
        self._kind, self._name = Kind(type_, cost), name

    def __set_name__(self, owner: type, name: str) -> None:
        name = self._name or name
        KINDS[owner.__name__, name] = self._kind
        super().__init__(lambda keys: keys.prefix + name)

    if TYPE_CHECKING:

        def __get__(self, keys: Any, owner: Any = None) -> str: ...  # type: ignore[explicit-override, override]


def kept(type_: str, cost: str = "", *, name: str = "") -> Callable[[T], T]:
    """Say of what type the keys are that a method names; see `Key`."""

    def note(method: Any) -> Any:
        owner, _, own = method.__qualname__.partition(".")
        KINDS[owner, name or own] = Kind(type_, cost)
        return method

    return note


@frozen
class RegistryKeys:
    """The keys that outlive a crawl."""

    namespace: str

    @property
    def prefix(self) -> str:
        """What all of them begin with."""
        return f"{self.namespace}:"

    crawls = Key(SET)
    """Set of the ids of all crawls of the namespace.

    A crawl is added when its first node enters it. `frontier crawl list` reads the
    set. Only `frontier crawl delete` and the duplicate filter's `clear` remove a
    crawl from it.
    """

    deleted = Key(SET)
    """Set of the marks of crawls that were deleted; see `CrawlKeys`.

    They tell a node that journals which it finds belong to a crawl that was
    deleted, not lost.
    """

    store = Key(STRING)
    """String: a random name of this store, by which collections know its crawls."""

    collections = Key(SET)
    """Set of the names of the collections that crawls of the namespace joined.

    A node with an archive adds its own, the default one as an empty name. Those on
    another server (`FRONTIER_COLLECTION_REDIS_URL`) are not here. It spares a
    status page the search for keys.
    """

    def spider(self, name: str) -> str:
        """Hash: the last number used, *serial*, and which crawl is whose.

        *open* is the crawl that was opened last, whether it has ended or not;
        `crawl:<job>` that of a job; *free* one that a command has made, which the first
        job to come makes its own. *job* is the id in `meta`. These are for crawls
        without a name of their own (`FRONTIER_CRAWL_ID`). Fields `run:<job>:<run>` name
        the crawl of the nodes of a run (`FRONTIER_RUN_ID`), whatever its name.
        `frontier crawl delete` removes the fields that name its crawl.
        """
        return f"{self.prefix}spider:{name}"


@frozen
class CrawlKeys:
    """The keys of one crawl."""

    namespace: str
    crawl_id: str
    born: str = ""
    """Its mark; empty for a crawl of an older version, which has none."""

    meta = Key(HASH)
    """Hash: the crawl's state, and the settings that it was created with.

    * *schema*: the version of a crawl's keys and values, 5; a node or command of
      another version does nothing, and says so in one line
    * *state*: `open`, `finished`, `canceled` or `limit`
    * *limit*: the limit at which it ended, `<name> <value>`
    * *shape*: JSON of the settings that all nodes must share
    * *spider*: its name
    * *job*: JSON of what it was begun for, `[spider, digest of it and the
      arguments, id, arguments, start URLs]`. Arguments and start URLs are as
      messages show them: shortened, and without what may be a secret
    * *created_ms*, *finished_ms*: when it began and ended
    * *swept_ms*: when a heartbeat last looked for silent nodes
    * *ttl_ms*: for how long its nodes may be silent before `crawl repair` takes
      them for dead, should their own entries be damaged
    * *resumed_ms*: since when nodes send heartbeats again, after all had stopped
    * *fetched*: a page was fetched, from these schemes, hosts and ports, one of
      each node; robots.txt and redirects do not count
    * *rebuilt*: it was made by `frontier crawl rebuild`
    * *born*, *marked*: the crawl's random mark, and whether all partitions have it
    * *address:CLASS*: `typed` if a seed has an address of that class, `named` if a
      seed's host name led to one; see `FRONTIER_ALLOW_ADDRESSES`
    * *removed_ms*: when its queues and its seen-set were removed
    * *twice*: `<time, ms> <node id>`: two live processes were found to have that
      id, at that time
    * *deleting_ms*: when `frontier crawl delete` began
    * *paused*: `<time, ms> <who>`: an operator has [paused](crawls.md#live-control)
      it
    * *controls*: the version of *paused*, and of the keys `controls` and
      `control_log`; each heartbeat brings it
    * *start_salt*: only after `frontier seen import --new`: salt of a second hash
      of start requests, by which they are queued once whatever was imported
    * *imported*: only after an [import](migrate.md#what-was-seen) of what another
      scheduler had seen: the set `imported` exists
    """

    nodes = Key(HASH)
    """Hash: node id to `<beat, ms> <weight> <busy> <process> <number> <ttl>`.

    Each heartbeat writes its node's entry, by the server's clock. *process* is
    random: it shows a node that another process has its id. `<node
    id>/<process>/<number>` is the *name* under which a node holds leases; one that
    was silent for too long comes back with the next number. Once a second a
    heartbeat removes nodes that were silent for longer than *ttl* ms, their own
    `FRONTIER_LEASE_TTL`.
    """

    former = Key(HASH)
    """Hash: name to ``<beat, ms>`` of processes whose node id another one has.

    A process that begins under the id of another moves that one here. What it holds
    is taken over when it has been silent for `FRONTIER_LEASE_TTL`.
    """

    ended = Key(HASH)
    """Hash: ``<node id>/<process>`` to what ran at its end: partition, token, id.

    Its watchdog writes it. Whoever takes over what the process had counts that page
    as delivered in full, and those beside it as a third.
    """

    epoch = Key(STRING)
    """Integer; grows when a node joins, leaves or is found dead.

    Nodes that know the same epoch have the same ring.
    """

    membership = Key(LIST, "who joined, left and died is not known any more")
    """List of `<epoch> <time, ms> <what> <weight> <node>`, the oldest first.

    What has happened to the members of the crawl: the last 500 entries. The scripts
    that change `nodes` write them, each in the same call as the change; a heartbeat
    that changes nothing writes none. *what* is

    * `joined`, `left`, `weight`: with its weight in the ring; 0 while it leaves;
    * `died`: it was silent for longer than a lease, as another node's heartbeat
      found out;
    * `removed`: by an operator (`frontier node remove`);
    * `replaced`: another process began under its id, as after a crash;
    * `twice`: the same, but the first of the two was still alive. It stops.

    [The status page](watch.md#the-status-page) and `frontier crawl status` show
    them. They stay when the frontier is removed. A crawl that was rebuilt has none
    from before the rebuild.
    """

    reports = Key(HASH, "the counts of its nodes start at 0")
    """Hash: node id to the JSON of its last report; ``*`` to the sum of others.

    `<node id>~<server ms>` has the last one of an earlier process of that node,
    until it is in the sum.

    `frontier crawl status` adds these up. The 32 nodes that went last have entries
    of their own. Twice a minute the first node by name adds older ones to the sum:
    those of nodes that left, and of nodes that have not been on the map for a day.
    A node that was frozen for longer than that, and goes on, counts twice. The sum
    is a report like the others, with *nodes*, their number, and the 200 hosts and
    media types with the most hits. It leaves out what went with the nodes: their
    memory, what they had in flight, their machines. A report has at most 64 KiB, or
    it is not read; it names at most 50 hosts with their errors and 50 that are
    slow, and 4,000 characters of partitions. [Status](figures.md#node-stats) says
    what each field means.
    """

    seeding = Key(ZSET)
    """Sorted set: digests of seed lists, scored by times, ms.

    Until its time each list keeps the crawl open.
    """

    seed_lists = Key(HASH, "seeds are tested again")
    """Hash: digest of a seed list to ``done``, or to how many of its lines are.

    The digest is the id of the job: of the spider, its arguments and start URLs.
    Nodes with other start URLs that name the crawl have another digest, and load
    theirs. A list that `frontier crawl seed` loads is here until it is loaded, with
    the number of its lines that are in the store.
    """

    @kept(STRING, name="start")
    def start_lock(self, start_id: str) -> str:
        """String: the node that loads this seed list; expires with its lease.

        Renewed while the seeds are loaded. A `frontier crawl seed` that loads a list
        holds it too; then it expires after 10 s.
        """
        return f"{self.prefix}start:{start_id}"

    @kept(LIST)
    def hints(self, node_id: str) -> str:
        """List of `<partition> <queue>`: what became ready at this node.

        In place of *queue*, `due` says that something is due there before all else that
        waits. Written by whoever pushes, emptied by the node. Expires after twice the
        lease if it is not read.
        """
        return f"{self.prefix}hints:{node_id}"

    @kept(STRING)
    def order(self, node_id: str) -> str:
        """String `drain` or `remove`: what an operator wants of this node.

        The node's heartbeat reads it. Removed when the node leaves, and by the first
        heartbeat of a new process with its name. Expires after an hour (`drain`) or a
        minute (`remove`).
        """
        return f"{self.prefix}order:{node_id}"

    spent = Key(HASH, "limits of the crawl count from 0")
    """Hash `{pages, items, errors, bytes, active_ms, active_at}` of all nodes.

    Only if a [limit](crawls.md#limits-of-a-whole-crawl) is set. It has what the
    nodes did, counted before the ack, and for how long at least one of them was
    alive.
    """

    allowances = Key(HASH)
    """Hash: node id to `<process> <number> <held>`, only with a limit.

    *number* is that of the node's last report, so that a report that comes twice
    counts once. *held* is how many requests the node has begun, or may begin. Nodes
    that are not in `nodes` do not count, and are removed when there are more than
    100.
    """

    controls = Key(HASH, "its exclusions and changed settings are lost")
    r"""Hash: what was changed while it runs to `<time, ms> <who>\n<value>`.

    See [Live control](crawls.md#live-control). Only if something was changed. A
    field is `exclude <host|prefix|pattern> <value>`, with the value `yes`, or `set
    <setting>`, or `set <setting> <host>`. At most 1,000 fields.
    """

    control_log = Key(LIST, "what operators did to it is not known any more")
    r"""List of `<version> <time, ms> <verb> <who>\n<what>`, the oldest first.

    What operators did to the crawl while it was open: the last 500 entries.
    `frontier crawl status --log` shows it.
    """

    cookies = Key(ZSET, "cookies are lost")
    """Sorted set: names of the cookie jars, scored by their versions.

    Only with `FRONTIER_COOKIES_SHARED`. A name is JSON `[cookiejar, registered
    domain]`. Each change of a jar gives it the highest version of all, so nodes ask
    only for versions above the last one that they know. Removed with the crawl's
    frontier, and the jars with it.
    """

    @kept(HASH, "cookies are lost")
    def jar(self, name: str) -> str:
        """Hash: JSON `[domain, path, name]` to `<expires, s> <JSON>`, a cookie.

        **These are secrets.** *expires* is in seconds since the Unix epoch, 0 for a
        session cookie. The JSON is `[value, secure, domain given, path given, discard,
        port, HttpOnly]`. A jar has at most 300 cookies.
        """
        return f"{self.prefix}jar:{name}"

    sites = Key(ZSET)
    """Sorted set: names of sites of feeds, scored by when to look at them, ms.

    Scores are in ms since the Unix epoch, by the server's clock: when the next
    round of the site is due; or, until the feeds of a round are queued, when
    another node is to queue them. A site that is paused or has ended has the score
    `+inf`.
    """

    @kept(HASH, "all items of its feeds are new again")
    def site(self, name: str) -> str:
        r"""Hash ``{state, want, config, round, ...}`` of a site, and of its feeds.

        * *state*: `waiting`, `crawling`, `paused` or `ended`
        * *want*: `active`, `paused` or `ended`: what the configuration says
        * *config*: msgpack of its feeds, `[[url, [implied page, ...]], ...]`
        * *wait_min*, *wait_max*, *wait*: seconds between two rounds: at least, at most,
          now
        * *round*: the number of the last round
        * *emitted*: when it began, in ms
        * *whole*: 1 once all its feeds are queued
        * *feeds*, *answered*: how many feeds the round asked for, and how many of them
          have answered
        * *found*: new items since a round last ended
        * *urls*: about how many of its URLs are queued or under way: they are counted,
          not listed
        * *items*: new items of all rounds
        * *feed:*\<digest\>: msgpack of a `FeedRecord`: what is known about the feed
          whose URL has that digest
        * *items:*\<digest\>: what is known about its items, in bytes of
          `frontier.feeds.items`
        * *at:*\<digest\>: the round in which it last answered
        * *asked:*\<digest\>: `<round> <ms>`: which round last asked for it, and when
        """
        return f"{self.prefix}site:{name}"

    @kept(HASH, "pages of several of its feeds may be fetched twice")
    def claimed(self, name: str) -> str:
        """Hash: fingerprint of a page of a site to `<round> <feed>`: who queued it.

        It lets an item or an implied page of two feeds be fetched once in a round, even
        if one of them answers late. Removed when a round begins, if it is long.
        """
        return f"{self.prefix}claimed:{name}"

    @kept(HASH, "pages of its items that failed are not asked for again")
    def failed(self, name: str) -> str:
        """Hash: fingerprint of a page of a site that failed to what is known about it.

        Msgpack `[url, feed, failures, resume, reason, asked]`. The round *resume* asks
        for it again. A page is removed when it is fetched, or when its *feed* no longer
        has it, unless an operator has *asked* for it.
        """
        return f"{self.prefix}failed:{name}"

    sitemaps = Key(HASH, "what its sitemaps named is new again")
    """Hash: URL of a sitemap to the hashes of what it named, 12 bytes each.

    Only where pages are visited again, to know which dates have changed; the items
    of [feeds](feeds.md#which-items-are-new) are remembered in the same way. A hash
    is 8 bytes of a URL and 4 of its date, for each URL that has a date. Removed
    with the crawl's frontier.
    """

    imported = Key(SET)
    """Set of marks of what another scheduler had seen, integers; and -1.

    Nodes only read it. An import begins by adding -1: a set without it was lost.
    Removed with the crawl's frontier.
    """

    def partition(self, number: int) -> PartitionKeys:
        """The keys of partition *number*."""
        prefix = f"{{{self.namespace}:{self.crawl_id}:{number}}}:"
        return PartitionKeys(prefix, self.born)

    @property
    def prefix(self) -> str:
        """What all of them begin with."""
        return f"{{{self.namespace}:{self.crawl_id}}}:"


def is_same(keys: CrawlKeys) -> list[tuple[tuple[str, ...], str | int]]:
    """The conditions of a `Call.txn` that is for this crawl, and no later one."""
    meta = keys.meta
    return [(("EXISTS", meta), 1), (("HGET", meta, "born"), keys.born)]


def node_of(holder: bytes) -> bytes:
    """The node id in *holder*, ``<node id>/<process>/<number>``, of a lease."""
    return holder.partition(b"/")[0]


def kind_of(name: str) -> Kind:
    """What the key *name* has to be; of no type if that is not known."""
    found = _TAGGED.fullmatch(name)
    if found is None or found[1].startswith("collection:"):
        return Kind(_outliving(name))
    is_partition = found[1].rpartition(":")[2].isdecimal() and found[1].count(":") > 1
    owner = "PartitionKeys" if is_partition else "CrawlKeys"
    return KINDS.get((owner, found[2]), Kind(""))


def _outliving(name: str) -> str:
    """The type of a key that outlives a crawl; empty if it is not known."""
    for (owner, known), kind in KINDS.items():
        if owner in _OUTLIVING and f":{name}".endswith(f":{known}"):
            return kind.type
    matching = (kind for pattern, kind in _BY_CRAWL if pattern.fullmatch(name))
    return next(matching, "")


def names_in(
    scan: Callable[[str], Iterable[bytes]], keys: CrawlKeys
) -> Iterator[tuple[bytes, int | None, str]]:
    """The keys that a store has of a crawl, some perhaps twice; *scan* finds them.

    Each is its name, its partition if it has one, and the first word after its tag.
    """
    start = f"{{{keys.namespace}:{keys.crawl_id}"
    own = re.compile(re.escape(start.encode()) + rb"(?::([0-9]{1,5}))?\}:([^:]*)")
    escaped = re.sub(r"([\\*?\[\]^-])", r"\\\1", start)
    for name in scan(escaped + "[:}]*"):
        if found := own.match(name):  # else of a crawl whose name begins like this
            number, what = found.groups()
            yield name, None if number is None else int(number), what.decode("latin-1")


@frozen
class PartitionKeys:
    """The keys of one partition."""

    prefix: str
    """What all of them begin with."""
    born: str = ""
    """The mark of the crawl, which a script looks for in `counts`."""

    lease = Key(HASH)
    """Hash `{token, holder}`, which stays; no holder if nobody has it.

    *holder* is the name of a process on the map of members, `<node
    id>/<process>/<number>`: the lease ends when that name does. *token* is the
    server's time in milliseconds, or one more than the last token if that is
    greater. A release adds one to it.
    """

    counts = Key(HASH)
    """Hash `{born, ready, pushed, seq, acked, dead, ...}`.

    * *born*: the crawl's mark; each partition has it from the start, and one that
      lacks it was lost
    * *ready*, *waiting*, *dead*: how many there are now
    * *pushed*, *acked*: how many there ever were
    * *seq*: the id of the last reservation
    * *skipped*: how many were left out because of the quotas of hosts
    """

    queues = Key(ZSET)
    """Sorted set of the queues that have ready URLs, scored by -priority.

    A queue is a `<priority>:<queue key>`; that of a request that names its
    downloader slot ends in `~<slot>`. The holder reads this set when it takes the
    partition, and when it hears of ready URLs but knows none.
    """

    @kept(LIST, "its URLs are lost")
    def ready(self, queue: str) -> str:
        """List of the items of *queue*, a `<priority>:<queue key>`.

        An item has at most 4 MiB:

        * one digit: how often it was delivered without an ack, and three for each third
          of a delivery ([why](decisions/delivery.md));
        * one byte: the version. 2 has whole URLs. Those of 3 lack `https://` and the
          queue key, those of 4 `http://` and the queue key ([why](decisions/store.md));
        * a msgpack map of what differs from a plain GET request, with places in
          `frontier.queue.item.NAMES` instead of names. Types that msgpack lacks have
          extension codes, `_PACKERS` there ([what
          travels](spiders.md#what-a-request-may-carry)); a class of the project is its
          module and name.
        """
        return f"{self.prefix}ready:{queue}"

    due = Key(ZSET)
    """Sorted set of the buckets of what waits, scored by when they are due.

    A [bucket](decisions/delivery.md) is a time in milliseconds. The score is the
    same, or later if the clock of whoever chose the bucket was behind the server's.
    """

    @kept(LIST, "its URLs are lost")
    def waiting(self, bucket: str) -> str:
        r"""List of `<queue>\n<item>` that are not ready before *bucket* is due.

        `queue_push` and `queue_again` append to it; `queue_due` moves what is due to
        the ready lists, and `queue_purge` to the list of a time that has come.
        """
        return f"{self.prefix}waiting:{bucket}"

    reserved = Key(HASH, "what was under way is lost, but for what nodes still had")
    r"""Hash: reservation id to `<token>\n<queue>\n<item>`.

    *token* is that of the lease under which it was reserved. ` <keeper>` follows it
    if a process keeps the reservation for requests that it has led to and that
    [cannot be stored](architecture.md#requests-that-cannot-be-stored): a name as in
    `lease`. Holders leave it alone as long as that name is on the map.
    """

    started = Key(SET)
    """Set of the ids of reservations that were started; expires in a day.

    The holder adds to it, and an id goes with its reservation. What is reserved and
    not here has not been tried, so a kill brings it no nearer to the dead letters.
    """

    hosts = Key(HASH, "hosts may be asked at once, and their quotas start at 0")
    """Hash: queue key to a record, of hosts that cannot be asked at will.

    A record is msgpack `[next, delay, until, since, failures, reason, pages, bytes,
    skipped]`, with times in milliseconds of the store's clock. *next* is when the
    host may be asked again by its *delay*; *until* when it may be after it failed
    ([left alone](crawls.md#hosts-that-say-later)), *since* is when that began,
    *failures* are the back-offs in a row; *reason* is `throttled` (429),
    `unavailable` (503), `unresolved`, `unconnected` or `tls`, or empty. *pages* and
    *bytes* count what was fetched, if [hosts have
    quotas](crawls.md#quotas-of-hosts), and *skipped* the URLs that were left out.

    The holder writes it, soon after a request was sent, and before the ack of one
    that has failed or counts. `queue_reserve` gives no URL of a host to a node that
    has not read its record. A record that is no longer needed is removed. Without
    quotas the hash expires after 16 days.
    """

    groups = Key(HASH, "limits of groups of URLs count from 0")
    """Hash: mark of a group of URLs to how many were new, as nodes have reported.

    Groups are what `FRONTIER_TRAP_QUERY_URLS`, `_DIRECTORY_URLS` and `_HOST_URLS`
    limit, for the hosts that are hashed to this partition. A node reports a group
    each time it has queued a fiftieth of the limit, so only groups with many URLs
    are here.
    """

    dead = Key(LIST, "its dead letters are lost")
    r"""List of `<reason>\n<queue>\n<item>` that were given up.

    *reason* is one line. `frontier crawl status` shows the first few, `frontier
    crawl dead` more.
    """

    seen = Key(HASH)
    """Hash `{buckets, count, blooms, last, era, ...}`: the seen-set's layout.

    * *buckets*, *count*: the buckets of the set, and the URLs in it
    * *blooms*, *last*: Bloom generations, and how many URLs the last of them has
    * *era*: how many sets were given up
    * *lost_from*: the URLs in Bloom when the first set was given up
    * *given_up*: the URLs of all sets that were given up
    * *old*: the buckets of the last of those sets while they are being deleted
    * *claims*: 1 if any mark is *claimed*

    A missing field is 0; *buckets*, 1.
    """

    claimed = Key(HASH, "requests of one process that wait for it may be made twice")
    """Hash: mark of a request that cannot be stored to the id of its owner.

    The owner is the [delivery](architecture.md#requests-that-cannot-be-stored) on
    which it stands, whose id is the same each time: for that one the URL is new.
    Removed when all that the request led to is done.
    """

    forced = Key(SET, "pages that are delivered again queue what they force twice")
    """Set of the ids of forced pushes whose parents are not acked yet.

    A page that is delivered again because its node was killed pushes its requests
    with `dont_filter` once more. Those whose ids are here are not queued again. An
    id is made of the parent's item, the request's fingerprint and its place among
    the parent's equal requests. The ack of the parent removes it.
    """

    items = Key(HASH, "items that were there may be there twice")
    """Hash: digest of an item's id to the mark of the page that it came from.

    Only with [`UniqueItemsPipeline`](spiders.md#items-once-over-all-nodes). Digests
    and marks have 16 bytes. The partition is that of the id, not of the page.
    """

    @kept(STRING, "its URLs are new again, and may be fetched twice")
    def bloom(self, generation: int) -> str:
        """Bitmap of one Bloom generation.

        Numbered from 0. It has its full length from the start.
        """
        return f"{self.prefix}bloom:{generation}"

    @kept(SET, "its URLs are new again, and may be fetched twice", name="set")
    def bucket(self, era: int, number: int) -> str:
        """Set of the members, integers, of one bucket of the set of *era*.

        Numbered from 0. A member is 62 hash bits plus 2^62, so it has 19 decimal
        digits. A bucket has about 200 members, and never more than the 512 up to which
        Redis keeps such a set compact (8 bytes an entry).
        """
        return f"{self.prefix}set:{era}:{number}"


@frozen
class CollectionKeys:
    """The keys of a collection's digest index: Browsertrix's own names.

    The default collection has them bare; a named one has its name before each. On a
    Redis Cluster, which Browsertrix cannot use, a hash tag puts them into one slot.
    """

    collection: str
    tagged: bool = False
    """Whether the store is a cluster."""

    alldupes = Key(HASH)
    """Hash: payload digest to the committed crawl that has its original.

    The digest is SHA-256 in lower-case hex, without a prefix. Imports also bring
    SHA-1, in upper-case base32, and BLAKE3 with its label.
    """

    def crawl(self, crawl_id: str) -> str:
        """Hash: payload digest to `<waczIndex> <date> <url> <size>`.

        Only of responses that are on disk. The WACZ index is 0 while a crawl of ours
        runs; for an import it is the place of the file in `c:<crawl_id>:wacz`. The date
        has 20 digits (microseconds) from a crawl of ours, mostly 14 from an import, and
        17 from Browsertrix itself.

        Ours keeps the 20 digits because the id of an original's record follows from its
        URL, date and digest: without the last three no revisit could name it
        (WARC-Refers-To). Browsertrix's crawler takes the digits after the 14th as a
        fraction of a second, and Node cuts that to milliseconds. So a revisit of one of
        our originals that it writes has WARC-Refers-To-Date in milliseconds. Replay
        tools compare the first 14 digits.
        """
        return f"{self.prefix}h:{crawl_id}"

    uncommitted = Key(SET, name="uncommittedcrawls")
    """Set of the ids of crawls whose digests only they themselves see."""

    committed = Key(SET, name="allcrawls")
    """Set of the ids of crawls whose digests every crawl sees."""

    canceled = Key(SET, name="canceledcrawls")
    """Set of the ids of crawls whose nodes forget their digests when they end.

    `frontier collection cancel` adds an open crawl; the crawl's last node removes
    it.
    """

    def counts(self, crawl_id: str) -> str:
        """Hash `{totalUrls, dupeUrls, conservedSize, totalCrawlSize}` of a crawl.

        Its captures, how many of them are revisits, the bytes that these saved, and the
        bytes of its files.
        """
        return f"{self.prefix}h:{crawl_id}{_COUNTS}"

    allcounts = Key(HASH)
    """Hash: the sums of the counts of all committed crawls, and a few more.

    Imports add *redundantUrls* and *estimatedRedundantSize* (what captures of known
    payloads take since the last purge, less 1,000 bytes each), *removedCrawls* and
    *removedCrawlSize* (committed crawls that the last manifest did not list; a
    purge removes both), and *updateProgress*, from 0 to 1.
    """

    def waczs(self, crawl_id: str) -> str:
        """List of JSON `{filename, hash, size}`: the WACZ files of a crawl.

        The WACZ index of an entry is a place in this list. An import puts `{filename}`
        there when it begins, and the rest when it ends.
        """
        return f"{self.prefix}c:{crawl_id}:wacz"

    done = Key(SET, name="src:d")
    """Set of the names of the sources, or WACZ files, that are in the index."""

    importing = Key(HASH, name="src:at")
    """Hash: name of a source whose import has begun to its WACZ index.

    Not Browsertrix's. The step that removes an entry adds the source's counts, so
    that these are added once.
    """

    updated = Key(STRING, name="last_update_ts")
    """String: when something was last imported or purged, in ISO 8601."""

    def commit_rounds(self, crawl_id: str) -> str:
        """Hash `{open, committed, at_ms}`: how far a crawl's commit rounds are.

        Not Browsertrix's. Only with `FRONTIER_COMMIT_EVERY`. *open* is the number of
        the round to which its nodes add, and is removed when the crawl is committed;
        *committed* is the last one that all crawls see; *at_ms* when that was. A round
        is uncommitted like a crawl `<crawl_id>~<number>`: it is in `uncommittedcrawls`,
        and `h:<crawl_id>~<number>` has its digests, which move to `h:<crawl_id>`.
        """
        return f"{self.prefix}commitrounds:{crawl_id}"

    committer = Key(STRING, name="frontier:committer")
    """String: the random name of who is committing a round, or purging; expires.

    It expires five seconds after the last step.
    """

    minted = Key(SET, name="frontier:minted")
    """Set of the ids of crawls whose record ids follow from the index.

    A crawl is in it before it has a digest. WARC-Refers-To in other crawls names
    only originals of such crawls. This key and the next three are ours; Browsertrix
    does not know them.
    """

    owners = Key(HASH, name="frontier:owners")
    """Hash: crawl id to the random name of the store that it is in.

    A node enters its crawl only if the collection does not have that name from
    another store, or from an import; otherwise it takes the next number. Nothing
    removes an entry: the name of a crawl that was purged, or deleted while its
    digests are here, is not used again.
    """

    urls = Key(HASH, name="frontier:urls")
    """Hash: URL key to `<crawl> <date> <url> <size>` of an original.

    Only with a `FRONTIER_REVISIT_MATCH` other than `digest`. The URL key is `url:`
    and 128 bits of BLAKE2b of digest and URL, in hex. An entry counts only while
    its crawl is the reader's or in `allcrawls`. A crawl that is committed in rounds
    is named with its round, `<crawl>~<number>`, and counts once that is committed.
    """

    history = Key(HASH, name="frontier:history")
    """Hash: URL key to JSON about the last capture with an ETag or a date.

    Only with `FRONTIER_REVISIT_CONDITIONAL_GET` or `FRONTIER_RECRAWL`. The key is
    made of the URL alone.
    """

    @property
    def prefix(self) -> str:
        """What all of them begin with."""
        if self.tagged:
            return f"{{collection:{self.collection}}}:"
        return f"{self.collection}:" if self.collection else ""


class _Store(Protocol):
    alone: bool


def collection_keys(store: _Store, collection: str) -> CollectionKeys:
    """The keys of *collection* on *store*."""
    return CollectionKeys(collection, tagged=not store.alone)
