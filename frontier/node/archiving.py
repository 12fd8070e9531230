"""The archive of one node: its writer thread, its index, its commit."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from frontier.cluster.crawls import CANCELED, LIMIT
from frontier.collection.rounds import Collection, Committed
from frontier.dedupe.cdx_lookup import CdxServers
from frontier.dedupe.digest import digest_of
from frontier.dedupe.revisit_policy import Match, Policy, Rules
from frontier.dedupe.url_history import History, MatchedIndex
from frontier.errors import (
    ArchiveError,
    CollectionInUse,
    ConfigurationError,
    FrontierError,
    KeyDamaged,
    StoreError,
    StoreUnavailable,
)
from frontier.files import make_directory, mode_of, open_input
from frontier.node.context import Part
from frontier.settings import values as parsers
from frontier.settings.values import UNNAMED
from frontier.store.client import BlockingStore, Call
from frontier.store.keys import CrawlKeys, RegistryKeys, collection_keys
from frontier.urls.canon.rulesets import SCRAPY, RuleSet, named
from frontier.warc.batch import ArchiveConfig, Counters
from frontier.warc.births import FIELD, birth_of
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.crawl_log import CrawlLog, logs_of, repair_logs
from frontier.warc.disk_space import Room
from frontier.warc.file_rotation import WarcConfig, WarcWriter, safe_name
from frontier.warc.records import MAX_URL, is_too_long
from frontier.warc.repair import repair
from frontier.warc.selection import Selection
from frontier.warc.upload import Uploader
from frontier.warc.writer_thread import ArchiveThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    from frontier.model import Attempt, Exchange, Outlinks, Stored
    from frontier.queue.reserve import Reservation
    from frontier.settings.config import Config
    from frontier.wacz.create import Made

logger = logging.getLogger(__name__)


DISK_DELAY = 0.1
"""Seconds after which a full archive is looked at again."""
BACKLOG = 256 * 1024 * 1024
"""Bytes of exchanges in memory above which the node waits for its disk."""
INDEX_TIMEOUT = 1.0
"""Seconds in which the digest index has to answer."""
SETTLES = 30.0
"""Seconds for which the store may be silent while a crawl's payloads are committed."""
SETTLE_PAUSE = 0.5
"""Seconds between attempts then."""
ASK_FOR_ROUND = 10.0
"""The most seconds after which a node asks again whether a round is due."""


def warcinfo_fields(
    config: Config, crawl_id: str, rules: RuleSet, settings: Mapping[str, Any]
) -> dict[str, str]:
    """What warcinfo records say of the crawl, and of *settings*, which are Scrapy's.

    The names are those of WARC 1.1 (section 6.2); FRONTIER_WARC_INFO adds to them,
    or replaces them. The values contain no passwords.
    """
    try:
        obeyed = parsers.boolean(settings.get("ROBOTSTXT_OBEY", False))
    except ValueError:
        obeyed = False
    fields = {
        "isPartOf": crawl_id,
        "hostname": socket.gethostname(),
        "http-header-user-agent": str(settings.get("USER_AGENT") or ""),
        "robots": "obey" if obeyed else "ignore",
    }
    own = config.as_settings()
    for name in (
        "FRONTIER_COLLECTION_REDIS_URL",
        "FRONTIER_REVISIT_CDX_SERVERS",
        "FRONTIER_WARC_UPLOAD",
    ):
        own[name] = " ".join(map(parsers.without_secrets, own[name].split()))
    own["FRONTIER_FEEDS"] = parsers.sites_without_secrets(own["FRONTIER_FEEDS"])
    given = json.loads(own.pop("FRONTIER_WARC_INFO") or "{}")
    known = {name: text for name, text in {**fields, **given}.items() if text}
    return {**known, **own, "canonicalization": rules.statement}


def rules_of(config: Config) -> Rules:
    """What becomes a revisit according to *config*.

    Raises:
        ConfigurationError: A package that its digest needs is not installed.
    """
    # Each is computed once.
    further = tuple(n for n in config.revisit_digests if n != config.digest)
    for name, algorithm in (
        ("FRONTIER_DIGEST", config.digest),
        *(("FRONTIER_REVISIT_DIGESTS", each) for each in further),
    ):
        try:
            digest_of(b"", algorithm)
        except ImportError:
            raise ConfigurationError(
                f"{name} = {algorithm!r}: needs a package; install it with: "
                f"pip install 'frontier-crawl[{algorithm}]'"
            ) from None
    policy = Policy(
        statuses=statuses_of(config.revisit_statuses)
        if config.revisit_enabled
        else frozenset(),  # nothing is looked up
        mime_include=config.revisit_mime_include,
        mime_exclude=config.revisit_mime_exclude,
        min_text_bytes=config.revisit_min_text_bytes,
        min_binary_bytes=config.revisit_min_binary_bytes,
    )
    return Rules(
        policy,
        Match(config.revisit_match),
        config.digest,
        further,
        # Scrapy's rules keep what sites change: revisits use Heritrix's instead.
        "heritrix" if config.canon_rules == SCRAPY else config.canon_rules,
    )


def statuses_of(names: Iterable[str]) -> frozenset[int]:
    """The statuses of FRONTIER_REVISIT_STATUSES: ``404``, ``2xx`` or ``*``."""
    found: set[int] = set()
    for each in names:
        pattern = "xxx" if each == "*" else each
        least, most = pattern.replace("x", "0"), pattern.replace("x", "9")
        found.update(range(int(least), int(most) + 1))
    return frozenset(found)


def matched_index(
    config: Config, store: BlockingStore, crawl_id: str, own: Collection
) -> MatchedIndex:
    """The index of *own*, by all keys, and of the collections that are only read."""
    further = []
    for name in config.revisit_read_collections:
        known = "" if name == UNNAMED else name
        further.append(Collection(store, known, crawl_id, revisits=True))
    name = config.collection
    return MatchedIndex(store, name, crawl_id, own, further, lambda: own.round_id)


def cdx_servers(config: Config, rules: Rules) -> CdxServers | None:
    """The CDX servers of the settings, where there are any."""
    if not (config.revisit_enabled and config.revisit_cdx_servers):
        return None
    timeout = config.revisit_cdx_timeout
    return CdxServers(config.revisit_cdx_servers, timeout, rules.match, rules.canon)


async def claim(config: Config, settings: Mapping[str, Any], keys: CrawlKeys) -> bool:
    """Whether a crawl may have its name in the collection, which other stores share.

    Two crawls of one name would be the same crawl there: each would see the other's
    digests as its own, and the first to end would commit them.

    Raises:
        StoreError: A server does not answer.
    """
    return await asyncio.to_thread(_claim, config, settings, keys)


def _claim(config: Config, settings: Mapping[str, Any], keys: CrawlKeys) -> bool:
    registry = RegistryKeys(keys.namespace)
    name = registry.store
    store = indexed = BlockingStore.from_settings(settings)
    try:
        store.command("SET", name, secrets.token_hex(16), "NX")
        mine = store.command("GET", name)
        known = int(store.command("EXISTS", keys.meta))
        if store.command("HEXISTS", keys.meta, "rebuilt"):
            known = 2
        if config.collection_redis_url:
            url = {"REDIS_URL": config.collection_redis_url}
            indexed = BlockingStore.from_settings(url)
        else:
            store.command("SADD", registry.collections, config.collection)
        within = collection_keys(indexed, config.collection)
        names = [within.owners, within.committed, within.uncommitted]
        while True:
            claimed = Call.to("collection_claim", names, [keys.crawl_id, mine, known])
            if indexed.call(claimed):
                return True
            if known or not store.command("EXISTS", keys.meta):
                return False
            known = 1  # another node has created it meanwhile, and added to the index
    finally:
        for each in {store, indexed}:
            each.close()


class Archive(Part):
    """Takes exchanges from the event loop and tells when they are on disk."""

    def __init__(
        self,
        config: Config,
        store: BlockingStore,
        crawl_id: str,
        settings: Mapping[str, Any],
        born: str = "",
    ) -> None:
        self._config = config
        self._looks = False
        self.on_room: Callable[[], object] = lambda: None
        """Called when there may be room again, after there was none."""
        self._store = store
        self._born = born
        self._indexed = store
        """The server of the collections."""
        if config.collection_redis_url:
            url = {"REDIS_URL": config.collection_redis_url}
            self._indexed = BlockingStore.from_settings(url)
        self._crawl_id = crawl_id
        self._collection = Collection(
            self._indexed,
            config.collection,
            crawl_id,
            revisits=config.revisit_enabled,
            every_s=config.commit_every,
        )
        self._uploader: Uploader | None = None
        self.history: History | None = None
        """The collection's history, for use outside the reactor's thread."""
        self._index = matched_index(config, self._indexed, crawl_id, self._collection)
        self._thread = self._open_thread(self._open_files(settings))
        self._sequence = -1
        self._counted = (0, 0, 0)
        self._counting = threading.Lock()
        self._selection = Selection(config.warc_include, config.warc_exclude)
        self._told_length = False
        self._repeated = False
        """Whether another node had committed the crawl before this one did."""

    def _open_files(self, settings: Mapping[str, Any]) -> WarcConfig:
        """Close files that nodes now gone left open; return how files are written.

        Raises:
            ArchiveError: The directory cannot be written.
        """
        config = self._warc_config(settings)
        directory, listing = config.directory, config.listing
        try:
            make_directory(directory, config.mode)
            repaired = repair(directory, listing.write if listing else None)
            closed = repair_logs(directory)
        except OSError as error:
            raise ArchiveError(
                f"FRONTIER_WARC_DIR = {str(directory)!r}: {error.strerror}"
            ) from error
        closed += [directory / each.file for each in repaired if not each.removed]
        if url := self._config.warc_upload:
            remove = self._config.warc_upload_remove
            self._uploader = Uploader(url, directory, remove=remove)
            for path in closed:
                self._uploader.add(path)
        return config

    def _warc_config(self, settings: Mapping[str, Any]) -> WarcConfig:
        """What the settings say of the files and their records."""
        config = self._config
        rules = named(config.canon_rules)
        keyed = rules if config.warc_cdxj_keys == "rules" else None
        return WarcConfig(
            config.warc_dir,
            self._crawl_id,
            config.node_id,
            max_bytes=config.warc_max_bytes,
            max_seconds=config.warc_max_seconds,
            warcinfo={
                **warcinfo_fields(config, self._crawl_id, rules, settings),
                **({FIELD: self._born} if self._born else {}),
            },
            rules=rules.as_json(),
            block_digest=config.warc_block_digest,
            metadata=config.warc_metadata,
            mode=(mode := mode_of(config.file_mode)),
            listing=Listing(keyed, mode=mode) if config.warc_cdxj else None,
        )

    def _closed(self, path: Path) -> None:
        if self._uploader is not None:
            self._uploader.add(path)

    def _a_history(self) -> History:
        return History(
            self._indexed,
            self._config.collection,
            self._crawl_id,
            lambda: self._collection.round_id,
        )

    async def enter(self) -> None:
        """Begin the crawl in the collection; may be repeated.

        Raises:
            StoreUnavailable: A store does not answer.
        """
        for step in (self._collection.begin, self._index.begin, self._commit_finished):
            await asyncio.to_thread(step)

    def _open_thread(self, files: WarcConfig) -> ArchiveThread:
        """The thread that asks the index and writes."""
        config, remembered, log = self._config, None, None
        rules = rules_of(config)
        looked_at = config.revisit_conditional_get or config.recrawl != "off"
        if config.revisit_enabled and looked_at:
            remembered, self.history = self._a_history(), self._a_history()
        if config.warc_log:
            log = CrawlLog(files, time.time, self._closed, born=self._born)
        room = Room(
            config.warc_dir, config.warc_min_free_bytes, config.warc_max_total_bytes
        )
        return ArchiveThread(
            WarcWriter(files, time.time, self._closed),
            self._index,
            ArchiveConfig(
                fsync=config.warc_fsync,
                rules=rules,
                decode=config.warc_payload == "decoded",
                history=remembered,
                servers=cdx_servers(config, rules),
                room=room,
                log=log,
            ),
        )

    def _commit_finished(self) -> None:
        """Commit crawls that ended, but whose last node died before it could.

        Canceled crawls are forgotten, for the same reason.
        """
        config = self._config
        for crawl_id in self._collection.uncommitted():
            meta = CrawlKeys(config.namespace, crawl_id).meta
            try:
                state = self._store.command("HGET", meta, "state")
            except KeyDamaged as error:
                logger.warning(
                    "the digests of the crawl %s stay uncommitted: %s", crawl_id, error
                )
                continue
            name = config.collection
            ended = Collection(self._indexed, name, crawl_id, revisits=True)
            if state in {b"finished", LIMIT.encode()}:
                try:
                    ended.commit()
                except CollectionInUse as error:
                    logger.warning("%s", error)
            elif state == CANCELED.encode():
                ended.cancel()

    @property
    def counters(self) -> Counters:
        """What was written so far."""
        return self._thread.batches.counters

    @property
    def full(self) -> bool:
        """Whether nothing more should be fetched until the disk has caught up."""
        return self._thread.batches.blocked or self._thread.pending_bytes > BACKLOG

    def left_out(self, exchange: Exchange) -> str:
        """The stat for why *exchange* stays out of the archive; empty if it does not.

        A request with too long a URL is not sent, but what a browser loads is not
        checked before.
        """
        if is_too_long(exchange.url):
            if not self._told_length:
                self._told_length = True
                logger.warning(
                    "%s... is not archived: its URL has more than %s characters, "
                    "and other tools could not read its record; further ones are "
                    "only counted",
                    exchange.url[:200],
                    f"{MAX_URL:,}",
                )
            return "frontier/archive/too_long"
        if not self._selection.takes(exchange):
            return "frontier/archive/excluded"
        return ""

    def submit(self, exchange: Exchange) -> Future[Stored]:
        """Have *exchange* written; the future completes in the writer thread."""
        self._sequence, future = self._thread.submit(exchange)
        return future

    @override
    def note(self, attempt: Attempt) -> None:
        """Have *attempt* written to the crawl log; `before_ack` waits for it."""
        if self._config.warc_log:
            self._sequence = self._thread.submit(attempt)[0]

    def note_outlinks(self, found: Outlinks) -> None:
        """Have the links of a page written; `before_ack` waits for it."""
        self._sequence = self._thread.submit(found)[0]

    @override
    def room(self) -> bool:
        """Whether the disk keeps up; else the owner is told when to look again."""
        if not self.full:
            return True
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(DISK_DELAY, self._look_again)
        return False

    def _look_again(self) -> None:
        self._looks = False
        self.on_room()

    @override
    def replaced(self) -> None:
        """Ask Sentinel for the primary again before the next call to a store."""
        self._store.leave()
        self._indexed.leave()

    @override
    def report(self) -> dict[str, Any]:
        """What was written, and whether the disk takes nothing more."""
        figures: dict[str, Any] = {"archive": self.counters.report()}
        if self._thread.batches.blocked:
            figures["disk_full"] = True
        return figures

    @override
    def waits_for(self) -> str:
        """What the thread waits for."""
        return self._thread.batches.waits_for

    @override
    async def before_ack(self, reservations: Sequence[Reservation] = ()) -> None:
        """Return when everything submitted so far is on disk and indexed."""
        if self._sequence >= 0:
            await asyncio.wrap_future(self._thread.durable(self._sequence))

    @override
    async def finish(self) -> None:
        """Write what is left and close the file."""
        await asyncio.to_thread(self._thread.close)
        try:
            await asyncio.to_thread(self._count)
        except StoreError as error:
            logger.warning(
                "the counts of this node are missing in the collection: %s", error
            )

    def _count(self) -> None:
        """Add what was written since the last call to the crawl's counts.

        They are figures for people, and decide nothing: a node that is killed does not
        add its last ones, and none are added twice.
        """
        done = self.counters
        with self._counting:
            figures = (done.exchanges, done.revisits, done.conserved_bytes)
            pairs = zip(figures, self._counted, strict=True)
            new = [now - before for now, before in pairs]
            self._counted = figures
        if any(new):
            self._collection.count(*new)

    @override
    async def run(self) -> None:
        """Count what was written, and commit it in rounds, until cancelled.

        Each node asks whether a round is due; one node at a time does it.
        """
        every, told = self._config.commit_every, False
        while True:
            await asyncio.sleep(min(every / 4 or ASK_FOR_ROUND, ASK_FOR_ROUND))
            try:
                await asyncio.to_thread(self._count)
                if not every:
                    continue
                done = await asyncio.to_thread(self._collection.commit_round)
            except StoreUnavailable:
                continue
            if isinstance(done, Committed):
                logger.info(
                    "round %d: committed %d payload digests to the collection, %d new",
                    done.number,
                    done.digests,
                    done.added,
                )
            elif done == "whole" and not told:
                told = True
                logger.warning(
                    "FRONTIER_COMMIT_EVERY: the crawl %s was committed as a whole "
                    "while it ran; what it adds is committed at its end",
                    self._crawl_id,
                )

    @override
    async def conclude(self, state: str) -> bool:
        """Commit, or cancel, and package; return whether nothing is left undone."""
        if not await self._settle(state):
            return False
        return state == CANCELED or await self.package()

    async def _settle(self, state: str) -> bool:
        settle = self.cancel if state == CANCELED else self.commit
        limit = time.monotonic() + SETTLES
        while True:
            began = time.monotonic()
            try:
                await settle()
            except StoreUnavailable as error:
                now = time.monotonic()
                if now - began > SETTLES:  # it went on before that
                    limit = now + SETTLES
                if now < limit:
                    await asyncio.sleep(SETTLE_PAUSE)
                    continue
                reason: FrontierError = error
            except FrontierError as error:
                reason = error
            else:
                return True
            logger.error(
                "the payloads of %s are not %s: %s; the next crawl of the collection "
                "does it, or frontier collection %s --crawl %s",
                self._crawl_id,
                "forgotten" if state == CANCELED else "committed",
                reason,
                "cancel" if state == CANCELED else "commit",
                self._crawl_id,
            )
            return False

    async def commit(self) -> None:
        """Offer the crawl's payloads to later crawls.

        Raises:
            CollectionInUse: Another commit, or a purge, takes too long.
            StoreUnavailable: The store does not answer; repeat the call.
        """
        done = await asyncio.to_thread(self._collection.commit)
        if done is None:
            logger.info(
                "canceled: its payload digests are not committed to the collection"
            )
        elif done.first:
            logger.info("committed %d payload digests to the collection", done.digests)
        else:
            self._repeated = True
            logger.info(
                "the crawl had been committed; %d of its %d payload digests are new",
                done.added,
                done.digests,
            )

    async def cancel(self) -> None:
        """Forget the crawl's payloads, instead of committing them."""
        await asyncio.to_thread(self._collection.cancel)
        logger.info("canceled: its payload digests are not committed to the collection")

    async def package(self) -> bool:
        """Make a WACZ of the crawl's closed files, where the settings want one.

        The WARC files stay. What goes wrong is logged, and the result is false: the
        crawl is whole, and ``frontier wacz create`` makes the file later. If another
        node has made one, a node that has nothing to add to it leaves it.
        """
        directory = self._config.wacz_dir
        if directory is None:
            return True
        out, own = self._wacz(directory), self.counters.exchanges
        if self._repeated and await asyncio.to_thread(out.exists):
            if own:
                logger.error(
                    "%s was made by another node, and may lack %d captures of this "
                    "one; frontier wacz create makes one that has them",
                    out,
                    own,
                )
            return not own
        try:
            made = await asyncio.to_thread(self._make_wacz, directory)
        except (ArchiveError, OSError) as error:
            logger.error("no WACZ was made: %s", error)  # noqa: TRY400 - all is said
            return False
        logger.info("made %s: %d captures", made.path, made.captures)
        if made.missing:
            logger.warning(
                "%s lacks the originals of %d payloads, and so do the WACZ files "
                "beside it; replay needs those that have them",
                made.path,
                made.missing,
            )
        return True

    def _wacz(self, directory: Path) -> Path:
        return directory / f"{safe_name(self._crawl_id)}.wacz"

    def _make_wacz(self, directory: Path) -> Made:
        # Imported here, as few nodes make one, and none before its end.
        from frontier.wacz.create import Options, create, warc_files

        out = self._wacz(directory)
        beside = tuple(p for p in sorted(directory.glob("*.wacz")) if p != out)
        given = self._config.warc_dir
        left_out: list[str] = []

        def refused(path: Path, why: str) -> None:
            logger.warning("%s is skipped: %s", path, why)
            left_out.append(path.name)

        found = warc_files([given], crawl_id=self._crawl_id, refused=refused)
        warcs, others = self._own(found)
        logs, other_logs = self._own(logs_of(given, self._crawl_id))
        if others or other_logs:
            logger.warning(
                "%d files of another crawl with the id %s are not in the WACZ: %s",
                len(others + other_logs),
                self._crawl_id,
                (others + other_logs)[0],
            )
        options = Options(
            title=self._crawl_id,
            logs=logs,
            against=beside,
            left_out=left_out,
            mode=mode_of(self._config.file_mode),
        )
        return create(out, warcs, options)

    def _own(self, paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
        """Those of *paths* that may be this crawl's, and those of others of its name.

        Raises:
            OSError: One cannot be read.
        """
        found: tuple[list[Path], list[Path]] = [], []
        for path in paths:
            with open_input(path) as file:
                other = birth_of(file, path.name)
            found[bool(self._born and other not in {"", self._born})].append(path)
        return found

    async def close(self) -> None:
        """Finish, if not done yet, upload the files that are left, disconnect."""
        try:
            await self.finish()
            if self._uploader is not None:  # not in `finish`: nobody waits for it there
                uploader, self._uploader = self._uploader, None
                await asyncio.to_thread(uploader.close)
        finally:
            self._store.close()
            if self._indexed is not self._store:
                self._indexed.close()
