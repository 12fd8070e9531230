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
from typing import TYPE_CHECKING

from frontier.errors import OtherSchema
from frontier.model import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontier.store.client import BlockingStore

SCHEMA = 5
"""The version of a crawl's keys and of what is in them. It goes up with each change
that nodes of two versions cannot both work with. Crawls from before there were versions
count as 1."""

_COUNTS = ":counts"
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


@frozen
class RegistryKeys:
    """The keys that outlive a crawl."""

    namespace: str

    def crawls(self) -> str:
        """Set of the ids of all crawls of the namespace.

        A crawl is added when its first node enters it. `frontier crawl list` reads the
        set. Only `frontier crawl delete` and the duplicate filter's `clear` remove a
        crawl from it.
        """
        return f"{self.namespace}:crawls"

    def deleted(self) -> str:
        """Set of the marks of crawls that were deleted; see `CrawlKeys`.

        They tell a node that journals which it finds belong to a crawl that was
        deleted, not lost.
        """
        return f"{self.namespace}:deleted"

    def store(self) -> str:
        """String: a random name of this store, by which collections know its crawls."""
        return f"{self.namespace}:store"

    def collections(self) -> str:
        """Set of the names of the collections that crawls of the namespace joined.

        A node with an archive adds its own, the default one as an empty name. Those on
        another server (`FRONTIER_COLLECTION_REDIS_URL`) are not here. It spares a
        status page the search for keys.
        """
        return f"{self.namespace}:collections"

    def spider(self, name: str) -> str:
        """Hash: the last number used, *serial*, and which crawl is whose.

        *open* is the crawl that was opened last, whether it has ended or not;
        `crawl:<job>` that of a job; *free* one that a command has made, which the first
        job to come makes its own. *job* is the id in `meta`. These are for crawls
        without a name of their own (`FRONTIER_CRAWL_ID`). Fields `run:<job>:<run>` name
        the crawl of the nodes of a run (`FRONTIER_RUN_ID`), whatever its name.
        `frontier crawl delete` removes the fields that name its crawl.
        """
        return f"{self.namespace}:spider:{name}"


@frozen
class CrawlKeys:
    """The keys of one crawl."""

    namespace: str
    crawl_id: str
    born: str = ""
    """Its mark; empty for a crawl of an older version, which has none."""

    def meta(self) -> str:
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
        * *taken:KEY*: `frontier migrate` has taken over that key of scrapy-redis, so
          nodes do not warn about it
        """
        return f"{self._tag()}:meta"

    def nodes(self) -> str:
        """Hash: node id to `<beat, ms> <weight> <busy> <process> <number> <ttl>`.

        Each heartbeat writes its node's entry, by the server's clock. *process* is
        random: it shows a node that another process has its id. `<node
        id>/<process>/<number>` is the *name* under which a node holds leases; one that
        was silent for too long comes back with the next number. Once a second a
        heartbeat removes nodes that were silent for longer than *ttl* ms, their own
        `FRONTIER_LEASE_TTL`.
        """
        return f"{self._tag()}:nodes"

    def former(self) -> str:
        """Hash: name to ``<beat, ms>`` of processes whose node id another one has.

        A process that begins under the id of another moves that one here. What it holds
        is taken over when it has been silent for `FRONTIER_LEASE_TTL`.
        """
        return f"{self._tag()}:former"

    def ended(self) -> str:
        """Hash: ``<node id>/<process>`` to what ran at its end: partition, token, id.

        Its watchdog writes it. Whoever takes over what the process had counts that page
        as delivered in full, and those beside it as a third.
        """
        return f"{self._tag()}:ended"

    def epoch(self) -> str:
        """Integer; grows when a node joins, leaves or is found dead.

        Nodes that know the same epoch have the same ring.
        """
        return f"{self._tag()}:epoch"

    def membership(self) -> str:
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
        return f"{self._tag()}:membership"

    def reports(self) -> str:
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
        return f"{self._tag()}:reports"

    def seeding(self) -> str:
        """Sorted set: digests of seed lists, scored by times, ms.

        Until its time each list keeps the crawl open.
        """
        return f"{self._tag()}:seeding"

    def seed_lists(self) -> str:
        """Hash: digest of a seed list to ``done``, or to how many of its lines are.

        The digest is the id of the job: of the spider, its arguments and start URLs.
        Nodes with other start URLs that name the crawl have another digest, and load
        theirs. A list that `frontier crawl seed` loads is here until it is loaded, with
        the number of its lines that are in the store.
        """
        return f"{self._tag()}:seed_lists"

    def start_lock(self, start_id: str) -> str:
        """String: the node that loads this seed list; expires with its lease.

        Renewed while the seeds are loaded. A `frontier crawl seed` that loads a list
        holds it too; then it expires after 10 s.
        """
        return f"{self._tag()}:start:{start_id}"

    def hints(self, node_id: str) -> str:
        """List of `<partition> <queue>`: what became ready at this node.

        In place of *queue*, `due` says that something is due there before all else that
        waits. Written by whoever pushes, emptied by the node. Expires after twice the
        lease if it is not read.
        """
        return f"{self._tag()}:hints:{node_id}"

    def order(self, node_id: str) -> str:
        """String `drain` or `remove`: what an operator wants of this node.

        The node's heartbeat reads it. Removed when the node leaves, and by the first
        heartbeat of a new process with its name. Expires after an hour (`drain`) or a
        minute (`remove`).
        """
        return f"{self._tag()}:order:{node_id}"

    def spent(self) -> str:
        """Hash `{pages, items, errors, bytes, active_ms, active_at}` of all nodes.

        Only if a [limit](crawls.md#limits-of-a-whole-crawl) is set. It has what the
        nodes did, counted before the ack, and for how long at least one of them was
        alive.
        """
        return f"{self._tag()}:spent"

    def allowances(self) -> str:
        """Hash: node id to `<process> <number> <held>`, only with a limit.

        *number* is that of the node's last report, so that a report that comes twice
        counts once. *held* is how many requests the node has begun, or may begin. Nodes
        that are not in `nodes` do not count, and are removed when there are more than
        100.
        """
        return f"{self._tag()}:allowances"

    def controls(self) -> str:
        r"""Hash: what was changed while it runs to `<time, ms> <who>\n<value>`.

        See [Live control](crawls.md#live-control). Only if something was changed. A
        field is `exclude <host|prefix|pattern> <value>`, with the value `yes`, or `set
        <setting>`, or `set <setting> <host>`. At most 1,000 fields.
        """
        return f"{self._tag()}:controls"

    def control_log(self) -> str:
        r"""List of `<version> <time, ms> <verb> <who>\n<what>`, the oldest first.

        What operators did to the crawl while it was open: the last 500 entries.
        `frontier crawl status --log` shows it.
        """
        return f"{self._tag()}:control_log"

    def cookies(self) -> str:
        """Sorted set: names of the cookie jars, scored by their versions.

        Only with `FRONTIER_COOKIES_SHARED`. A name is JSON `[cookiejar, registered
        domain]`. Each change of a jar gives it the highest version of all, so nodes ask
        only for versions above the last one that they know. Removed with the crawl's
        frontier, and the jars with it.
        """
        return f"{self._tag()}:cookies"

    def jar(self, name: str) -> str:
        """Hash: JSON `[domain, path, name]` to `<expires, s> <JSON>`, a cookie.

        **These are secrets.** *expires* is in seconds since the Unix epoch, 0 for a
        session cookie. The JSON is `[value, secure, domain given, path given, discard,
        port, HttpOnly]`. A jar has at most 300 cookies.
        """
        return f"{self._tag()}:jar:{name}"

    def sites(self) -> str:
        """Sorted set: names of sites of feeds, scored by when to look at them, ms.

        Scores are in ms since the Unix epoch, by the server's clock: when the next
        round of the site is due; or, until the feeds of a round are queued, when
        another node is to queue them. A site that is paused or has ended has the score
        `+inf`.
        """
        return f"{self._tag()}:sites"

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
        return f"{self._tag()}:site:{name}"

    def claimed(self, name: str) -> str:
        """Hash: fingerprint of a page of a site to `<round> <feed>`: who queued it.

        It lets an item or an implied page of two feeds be fetched once in a round, even
        if one of them answers late. Removed when a round begins, if it is long.
        """
        return f"{self._tag()}:claimed:{name}"

    def failed(self, name: str) -> str:
        """Hash: fingerprint of a page of a site that failed to what is known about it.

        Msgpack `[url, feed, failures, resume, reason, asked]`. The round *resume* asks
        for it again. A page is removed when it is fetched, or when its *feed* no longer
        has it, unless an operator has *asked* for it.
        """
        return f"{self._tag()}:failed:{name}"

    def sitemaps(self) -> str:
        """Hash: URL of a sitemap to the hashes of what it named, 12 bytes each.

        Only where pages are visited again, to know which dates have changed; the items
        of [feeds](feeds.md#which-items-are-new) are remembered in the same way. A hash
        is 8 bytes of a URL and 4 of its date, for each URL that has a date. Removed
        with the crawl's frontier.
        """
        return f"{self._tag()}:sitemaps"

    def imported(self) -> str:
        """Set of marks of what another scheduler had seen, integers; and -1.

        Nodes only read it. An import begins by adding -1: a set without it was lost.
        Removed with the crawl's frontier.
        """
        return f"{self._tag()}:imported"

    def partition(self, number: int) -> PartitionKeys:
        """The keys of partition *number*."""
        tag = f"{{{self.namespace}:{self.crawl_id}:{number}}}"
        return PartitionKeys(tag, self.born)

    def _tag(self) -> str:
        return f"{{{self.namespace}:{self.crawl_id}}}"


def taken(name: str) -> str:
    """Field of `CrawlKeys.meta`: scrapy-redis's key *name* was taken over."""
    return f"taken:{name}"


def is_same(keys: CrawlKeys) -> list[tuple[tuple[str, ...], str | int]]:
    """The conditions of a `Call.txn` that is for this crawl, and no later one."""
    meta = keys.meta()
    return [(("EXISTS", meta), 1), (("HGET", meta, "born"), keys.born)]


def node_of(holder: bytes) -> bytes:
    """The node id in *holder*, ``<node id>/<process>/<number>``, of a lease."""
    return holder.partition(b"/")[0]


def names_in(
    store: BlockingStore, keys: CrawlKeys
) -> Iterator[tuple[bytes, int | None, str]]:
    """The keys that *store* has of a crawl, some perhaps twice.

    Each is its name, its partition if it has one, and the first word after its tag.
    """
    start = f"{{{keys.namespace}:{keys.crawl_id}"
    own = re.compile(re.escape(start.encode()) + rb"(?::([0-9]{1,5}))?\}:([^:]*)")
    escaped = re.sub(r"([\\*?\[\]^-])", r"\\\1", start)
    for name in store.scan(escaped + "[:}]*"):
        if found := own.match(name):  # else of a crawl whose name begins like this
            number, what = found.groups()
            yield name, None if number is None else int(number), what.decode("latin-1")


@frozen
class PartitionKeys:
    """The keys of one partition."""

    tag: str
    born: str = ""
    """The mark of the crawl, which a script looks for in `counts`."""

    @property
    def lease(self) -> str:
        """Hash `{token, holder}`, which stays; no holder if nobody has it.

        *holder* is the name of a process on the map of members, `<node
        id>/<process>/<number>`: the lease ends when that name does. *token* is the
        server's time in milliseconds, or one more than the last token if that is
        greater. A release adds one to it.
        """
        return f"{self.tag}:lease"

    @property
    def counts(self) -> str:
        """Hash `{born, ready, pushed, seq, acked, dead, ...}`.

        * *born*: the crawl's mark; each partition has it from the start, and one that
          lacks it was lost
        * *ready*, *waiting*, *dead*: how many there are now
        * *pushed*, *acked*: how many there ever were
        * *seq*: the id of the last reservation
        * *skipped*: how many were left out because of the quotas of hosts
        """
        return f"{self.tag}:counts"

    @property
    def queues(self) -> str:
        """Sorted set of the queues that have ready URLs, scored by -priority.

        A queue is a `<priority>:<queue key>`; that of a request that names its
        downloader slot ends in `~<slot>`. The holder reads this set when it takes the
        partition, and when it hears of ready URLs but knows none.
        """
        return f"{self.tag}:queues"

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

        With `FRONTIER_QUEUE_KEY = "url"` the queue key is `*`: one queue for each
        priority.
        """
        return f"{self.tag}:ready:{queue}"

    @property
    def due(self) -> str:
        """Sorted set of the buckets of what waits, scored by when they are due.

        A [bucket](decisions/delivery.md) is a time in milliseconds. The score is the
        same, or later if the clock of whoever chose the bucket was behind the server's.
        """
        return f"{self.tag}:due"

    def waiting(self, bucket: str) -> str:
        r"""List of `<queue>\n<item>` that are not ready before *bucket* is due.

        `queue_push` and `queue_again` append to it; `queue_due` moves what is due to
        the ready lists, and `queue_purge` to the list of a time that has come.
        """
        return f"{self.tag}:waiting:{bucket}"

    @property
    def reserved(self) -> str:
        r"""Hash: reservation id to `<token>\n<queue>\n<item>`.

        *token* is that of the lease under which it was reserved. ` <keeper>` follows it
        if a process keeps the reservation for requests that it has led to and that
        [cannot be stored](architecture.md#requests-that-cannot-be-stored): a name as in
        `lease`. Holders leave it alone as long as that name is on the map.
        """
        return f"{self.tag}:reserved"

    @property
    def started(self) -> str:
        """Set of the ids of reservations that were started; expires in a day.

        The holder adds to it, and an id goes with its reservation. What is reserved and
        not here has not been tried, so a kill brings it no nearer to the dead letters.
        """
        return f"{self.tag}:started"

    @property
    def hosts(self) -> str:
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
        return f"{self.tag}:hosts"

    @property
    def groups(self) -> str:
        """Hash: mark of a group of URLs to how many were new, as nodes have reported.

        Groups are what `FRONTIER_TRAP_QUERY_URLS`, `_DIRECTORY_URLS` and `_HOST_URLS`
        limit, for the hosts that are hashed to this partition. A node reports a group
        each time it has queued a fiftieth of the limit, so only groups with many URLs
        are here.
        """
        return f"{self.tag}:groups"

    @property
    def dead(self) -> str:
        r"""List of `<reason>\n<queue>\n<item>` that were given up.

        *reason* is one line. `frontier crawl status` shows the first few, `frontier
        crawl dead` more.
        """
        return f"{self.tag}:dead"

    @property
    def seen(self) -> str:
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
        return f"{self.tag}:seen"

    @property
    def claimed(self) -> str:
        """Hash: mark of a request that cannot be stored to the id of its owner.

        The owner is the [delivery](architecture.md#requests-that-cannot-be-stored) on
        which it stands, whose id is the same each time: for that one the URL is new.
        Removed when all that the request led to is done.
        """
        return f"{self.tag}:claimed"

    @property
    def forced(self) -> str:
        """Set of the ids of forced pushes whose parents are not acked yet.

        A page that is delivered again because its node was killed pushes its requests
        with `dont_filter` once more. Those whose ids are here are not queued again. An
        id is made of the parent's item, the request's fingerprint and its place among
        the parent's equal requests. The ack of the parent removes it.
        """
        return f"{self.tag}:forced"

    @property
    def items(self) -> str:
        """Hash: digest of an item's id to the mark of the page that it came from.

        Only with [`UniqueItemsPipeline`](spiders.md#items-once-over-all-nodes). Digests
        and marks have 16 bytes. The partition is that of the id, not of the page.
        """
        return f"{self.tag}:items"

    def bloom(self, generation: int) -> str:
        """Bitmap of one Bloom generation.

        Numbered from 0. It has its full length from the start.
        """
        return f"{self.tag}:bloom:{generation}"

    def bucket(self, era: int, number: int) -> str:
        """Set of the members, integers, of one bucket of the set of *era*.

        Numbered from 0. A member is 62 hash bits plus 2^62, so it has 19 decimal
        digits. A bucket has about 200 members, and never more than the 512 up to which
        Redis keeps such a set compact (8 bytes an entry).
        """
        return f"{self.tag}:set:{era}:{number}"


@frozen
class CollectionKeys:
    """The keys of a collection's digest index: Browsertrix's own names.

    The default collection has them bare; a named one has its name before each. On a
    Redis Cluster, which Browsertrix cannot use, a hash tag puts them into one slot.
    """

    collection: str
    tagged: bool = False
    """Whether the store is a cluster."""

    def alldupes(self) -> str:
        """Hash: payload digest to the committed crawl that has its original.

        The digest is SHA-256 in lower-case hex, without a prefix. Imports also bring
        SHA-1, in upper-case base32, and BLAKE3 with its label.
        """
        return self._name("alldupes")

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
        return self._name(f"h:{crawl_id}")

    def uncommitted(self) -> str:
        """Set of the ids of crawls whose digests only they themselves see."""
        return self._name("uncommittedcrawls")

    def committed(self) -> str:
        """Set of the ids of crawls whose digests every crawl sees."""
        return self._name("allcrawls")

    def canceled(self) -> str:
        """Set of the ids of crawls whose nodes forget their digests when they end.

        `frontier collection cancel` adds an open crawl; the crawl's last node removes
        it.
        """
        return self._name("canceledcrawls")

    def counts(self, crawl_id: str) -> str:
        """Hash `{totalUrls, dupeUrls, conservedSize, totalCrawlSize}` of a crawl.

        Its captures, how many of them are revisits, the bytes that these saved, and the
        bytes of its files.
        """
        return self._name(f"h:{crawl_id}{_COUNTS}")

    def allcounts(self) -> str:
        """Hash: the sums of the counts of all committed crawls, and a few more.

        Imports add *redundantUrls* and *estimatedRedundantSize* (what captures of known
        payloads take since the last purge, less 1,000 bytes each), *removedCrawls* and
        *removedCrawlSize* (committed crawls that the last manifest did not list; a
        purge removes both), and *updateProgress*, from 0 to 1.
        """
        return self._name("allcounts")

    def waczs(self, crawl_id: str) -> str:
        """List of JSON `{filename, hash, size}`: the WACZ files of a crawl.

        The WACZ index of an entry is a place in this list. An import puts `{filename}`
        there when it begins, and the rest when it ends.
        """
        return self._name(f"c:{crawl_id}:wacz")

    def done(self) -> str:
        """Set of the names of the sources, or WACZ files, that are in the index."""
        return self._name("src:d")

    def importing(self) -> str:
        """Hash: name of a source whose import has begun to its WACZ index.

        Not Browsertrix's. The step that removes an entry adds the source's counts, so
        that these are added once.
        """
        return self._name("src:at")

    def updated(self) -> str:
        """String: when something was last imported or purged, in ISO 8601."""
        return self._name("last_update_ts")

    def commit_rounds(self, crawl_id: str) -> str:
        """Hash `{open, committed, at_ms}`: how far a crawl's commit rounds are.

        Not Browsertrix's. Only with `FRONTIER_COMMIT_EVERY`. *open* is the number of
        the round to which its nodes add, and is removed when the crawl is committed;
        *committed* is the last one that all crawls see; *at_ms* when that was. A round
        is uncommitted like a crawl `<crawl_id>~<number>`: it is in `uncommittedcrawls`,
        and `h:<crawl_id>~<number>` has its digests, which move to `h:<crawl_id>`.
        """
        return self._name(f"commitrounds:{crawl_id}")

    def committer(self) -> str:
        """String: the random name of who is committing a round, or purging; expires.

        It expires five seconds after the last step.
        """
        return self._name("frontier:committer")

    def minted(self) -> str:
        """Set of the ids of crawls whose record ids follow from the index.

        A crawl is in it before it has a digest. WARC-Refers-To in other crawls names
        only originals of such crawls. This key and the next three are ours; Browsertrix
        does not know them.
        """
        return self._name("frontier:minted")

    def owners(self) -> str:
        """Hash: crawl id to the random name of the store that it is in.

        A node enters its crawl only if the collection does not have that name from
        another store, or from an import; otherwise it takes the next number. Nothing
        removes an entry: the name of a crawl that was purged, or deleted while its
        digests are here, is not used again.
        """
        return self._name("frontier:owners")

    def urls(self) -> str:
        """Hash: URL key to `<crawl> <date> <url> <size>` of an original.

        Only with a `FRONTIER_REVISIT_MATCH` other than `digest`. The URL key is `url:`
        and 128 bits of BLAKE2b of digest and URL, in hex. An entry counts only while
        its crawl is the reader's or in `allcrawls`. A crawl that is committed in rounds
        is named with its round, `<crawl>~<number>`, and counts once that is committed.
        """
        return self._name("frontier:urls")

    def history(self) -> str:
        """Hash: URL key to JSON about the last capture with an ETag or a date.

        Only with `FRONTIER_REVISIT_CONDITIONAL_GET` or `FRONTIER_RECRAWL`. The key is
        made of the URL alone.
        """
        return self._name("frontier:history")

    def _name(self, what: str) -> str:
        if self.tagged:
            return f"{{collection:{self.collection}}}:{what}"
        return f"{self.collection}:{what}" if self.collection else what


def collection_keys(store: BlockingStore, collection: str) -> CollectionKeys:
    """The keys of *collection* on *store*."""
    return CollectionKeys(collection, tagged=not store.alone)
