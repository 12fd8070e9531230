"""Everything this package raises.

FrontierError
├── ConfigurationError      a setting or a seed list is wrong; fix it and restart
│   ├── InputBroken         a file of feeds, schedules, rules or seen URLs is wrong
│   └── OtherSchema         another version of this package made the crawl
├── InvalidURL              the library that a rule set copies refuses the URL
├── StoreError
│   ├── StoreUnavailable    Redis did not answer; the caller may try again
│   │   ├── StoreFull       its memory is full; it takes nothing until there is room
│   │   └── WritesRefused   its disk is full, it lacks replicas, or it is a replica
│   ├── StoreRefused        Redis answered, but cannot be used as it is
│   │   └── KeyDamaged      a key has another type or value than this version writes
│   ├── NoStore             there is no embedded store where one was looked for
│   └── PushForgotten       the store has lost writes that it had confirmed
├── CoordinationError
│   ├── LeaseLost           somebody else owns the partition now; stop writing
│   ├── NotFound            the store does not have what was asked for
│   │   ├── UnknownCrawl    there is no such crawl
│   │   └── CrawlClosed     the crawl has ended; nothing can be put into it
│   ├── InUse               this cannot be done now, because somebody else works there
│   │   └── CrawlInUse      the crawl has not ended, or nodes of it are alive
│   ├── CrawlLost           the store has lost the crawl, in whole or in part
│   ├── RunOver             the crawl of the node's run has ended; it has nothing to do
│   ├── NodeStopped         a node was told to stop before it had started
│   ├── NoCrawlYet          there is no crawl yet for a node that may only join one
│   └── NodeReplaced        another process takes part under this node's id
├── NotAFeed                what a server sent cannot be read as a feed
├── WorkerFailed            what a server sent is too much for a worker process
├── CodecError
│   └── NotSerializable     a request carries what cannot be stored
└── ArchiveError
    ├── BodyArchivedOnly    a body is too large for the spider, whose callback needs it
    ├── CollectionInUse     not now: a crawl runs, or a source is being imported
    ├── CrawlCanceled       the crawl's payloads are not to be offered to others
    ├── DirectoryInUse      another command works in it
    ├── FileInUse           another process writes the file
    ├── NoManifest          there is no manifest, or no plan, to go by
    ├── StaleManifest       a file has changed since its manifest was made
    ├── Unwritable          other records cannot be put into a file of this format
    ├── FileTaken           a file exists already, and is not overwritten unasked
    ├── NotUncommitted      there is nothing of that crawl to commit or to cancel
    ├── SourceBroken        a source cannot be imported; the others can
    ├── WriterStopped       the archive cannot take records any more
    ├── BadWarc             a file is cut off or damaged, or is no WARC file
    └── BadWacz             a WACZ file breaks a rule, or cannot be made

An error carries the facts that callers ask for as attributes, so that they match on
types and fields and never on text. Its ``code`` is the exit code of a
command that it ends (`frontier.cli.output.ExitCode`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

NOTHING_TO_DO = "it has nothing to do"
"""How the message of `RunOver` ends; it is found by this in the logs of nodes."""


class FrontierError(Exception):
    """Base class of every error raised by this package."""

    code = 1
    """The exit code of a command that it ends."""


class ConfigurationError(FrontierError):
    """A setting, an argument or a file given by the operator cannot work."""

    code = 2


class OtherSchema(ConfigurationError):
    """The keys of a crawl were written by another version of this package."""

    def __init__(self, crawl_id: str, has: str, ours: int) -> None:
        super().__init__(
            f"the crawl {crawl_id} has schema version {has}, and this version of "
            f"frontier reads and writes {ours}; use the frontier that made it, or set "
            "FRONTIER_CRAWL_ID to begin another crawl"
        )


class InputBroken(ConfigurationError):
    """A file or a database that the operator gave cannot be used.

    It has feeds, schedules, rules of canonicalization or seen URLs.
    """

    def __init__(self, where: str, reason: str, line: int = 0) -> None:
        at = f"{where}:{line}" if line else where
        super().__init__(f"{at}: {reason}")
        self.where = where
        """The file, or the database without its password."""
        self.reason = reason
        self.line = line
        """The line of the file, counted from 1; 0 if the error is about no line."""


class InvalidURL(FrontierError, ValueError):
    """A rule set has no canonical form for a URL."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url[:200]!r}: {reason}")
        self.url = url
        self.reason = reason


class StoreError(FrontierError):
    """Base class of errors that come from Redis."""

    code = 3


class StoreUnavailable(StoreError):
    """Redis did not answer. Nothing is known about the operation's effect."""

    def __init__(self, where: str, reason: str) -> None:
        # If it only lacks its replicas, say, it runs and its URL is right.
        is_away = "connecting" in reason or "Timeout" in reason
        cure = "; check that the server runs, and its URL (REDIS_URL, --redis-url)"
        super().__init__(
            f"the store at {where} does not answer: {reason.rstrip('.')}"
            f"{cure if is_away else ''}"
        )
        self.where = where
        self.reason = reason


class StoreFull(StoreUnavailable):
    """Redis has no memory left for what was to be stored; nothing was done."""

    def __init__(self, where: str) -> None:
        super().__init__(where, "out of memory")
        self.args = (f"the store at {where} has no memory left (maxmemory)",)


class WritesRefused(StoreUnavailable):
    """Redis answers, and writes nothing for now; nothing was done."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.args = (f"the store at {where} refuses writes: {reason}",)


class StoreRefused(StoreError):
    """Redis answered, but with an error or a configuration that cannot work."""


class KeyDamaged(StoreRefused):
    """A key of the store has a type, or a value, that this version never writes."""

    code = 7

    def __init__(self, where: str, key: str, reason: str) -> None:
        at = f" of the store at {where}" if where else ""
        super().__init__(f"the key {key}{at} is damaged: {reason}")
        self.where = where
        self.key = key
        self.reason = reason


class NoStore(StoreError):
    """There is no embedded store where one was looked for."""

    def __init__(self, directory: str) -> None:
        project = ""
        if Path("scrapy.cfg").exists():
            project = "; the settings of the project here are not read"
        super().__init__(
            f"there is no store in {directory}: the first crawl makes it. Name a "
            f"server with --redis-url, or another directory with --store-dir{project}"
        )


class PushForgotten(StoreError):
    """A partition lacks a push of this process that the store had confirmed."""

    def __init__(self) -> None:
        super().__init__(
            "the store has lost writes that it had confirmed, by a failover or a "
            "restart; run the command again"
        )


class CoordinationError(FrontierError):
    """Base class of errors about who owns what."""


class LeaseLost(CoordinationError):
    """The lease expired, or was superseded by one with a higher token."""

    def __init__(self, partition: int, token: int) -> None:
        super().__init__(f"lease on partition {partition} is lost (token {token})")
        self.partition = partition
        self.token = token


class NotFound(CoordinationError):
    """The store does not have what was asked for, or not any more."""

    code = 4


class InUse(CoordinationError):
    """Something was not stopped, removed or worked on, because it is in use."""

    code = 5


class UnknownCrawl(NotFound):
    """There is no such crawl in the store."""

    def __init__(self, namespace: str, crawl_id: str) -> None:
        name = f" {crawl_id}" if crawl_id else ""
        super().__init__(f"there is no crawl{name} in namespace {namespace}")


class CrawlLost(CoordinationError):
    """The store has lost a crawl that it had, or a part of it."""

    def __init__(self, crawl_id: str = "") -> None:
        name = f" {crawl_id}" if crawl_id else ""
        super().__init__(
            f"the store has lost the crawl{name}, in whole or in part: it was emptied "
            "(FLUSHALL), or started again without its data, or keys were deleted, or "
            "another crawl took its name; `frontier crawl rebuild` restores it from "
            "the nodes' journals (FRONTIER_JOURNAL_DIR); without them `frontier crawl "
            "end` ends it, or `crawl delete` removes what is left of it"
        )
        self.crawl_id = crawl_id


class NodeReplaced(CoordinationError):
    """Another process takes part in the crawl under this node's id."""

    def __init__(self, crawl_id: str, node_id: str) -> None:
        super().__init__(
            f"another process takes part in the crawl {crawl_id} as {node_id} too; it "
            "came later, so this one stops: give each node a FRONTIER_NODE_ID of its "
            "own, or none. frontier crawl status says where the other one runs"
        )


class CrawlClosed(NotFound):
    """The crawl has ended, so that nothing can be put into it."""

    def __init__(self, crawl_id: str) -> None:
        super().__init__(
            f"the crawl {crawl_id} has ended; start a node to open a new one"
        )


class RunOver(CoordinationError):
    """The crawl that a node came to take part in had ended already."""

    def __init__(self, crawl_id: str, state: str, run_id: str) -> None:
        of_run = f" of the run {run_id!r}" if run_id else ""
        super().__init__(
            f"the crawl {crawl_id}{of_run} has ended ({state}) before this node came; "
            f"{NOTHING_TO_DO}"
        )


class NodeStopped(CoordinationError):
    """A node was told to stop while it waited for its store, or for a crawl."""

    def __init__(self, node_id: str) -> None:
        super().__init__(f"the node {node_id} was stopped before it had started")


class NoCrawlYet(CoordinationError):
    """There is no crawl yet for a node that opens none (``FRONTIER_JOIN_ONLY``)."""

    def __init__(self, crawl_id: str, spider: str) -> None:
        named = f"crawl {crawl_id}" if crawl_id else f"crawl of the spider {spider}"
        super().__init__(f"there is no {named} to join yet")


class CrawlInUse(InUse):
    """The crawl has not ended; or *nodes* of it are alive."""

    def __init__(self, crawl_id: str, nodes: Sequence[str] = ()) -> None:
        named = ", ".join(nodes[:5])
        more = f" and {len(nodes) - 5:,} more" if len(nodes) > 5 else ""
        super().__init__(
            f"nodes of the crawl {crawl_id} are alive: {named}{more}; stop them first"
            if nodes
            else f"the crawl {crawl_id} has not ended; end it with frontier crawl end"
        )


class WorkerFailed(FrontierError):
    """A worker process was killed at a limit, or its job failed."""

    def __init__(self, job: str, url: str, reason: str) -> None:
        super().__init__(f"{job} of {url}: {reason}")
        self.reason = reason


class NotAFeed(FrontierError):
    """What came from the URL of a feed cannot be read as one."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url} {reason}")
        self.reason = reason


class CodecError(FrontierError):
    """Bytes from the store are not what this version writes."""


class NotSerializable(CodecError):
    """A request carries a value that cannot be stored."""

    def __init__(self, url: str, where: str, reason: str) -> None:
        super().__init__(f"{url} cannot be stored: {where} {reason}")
        self.url = url
        self.where = where
        self.reason = reason


class ArchiveError(FrontierError):
    """Base class of errors about WARC files and their index."""


class BodyArchivedOnly(ArchiveError):
    """A body is larger than a spider may get, and the callback needs a body.

    Unless *is_archived*, rules keep it out of the archive, too.
    """

    def __init__(self, url: str, *, is_archived: bool) -> None:
        where = "in the archive alone" if is_archived else "not archived either"
        super().__init__(
            f"the body of {url[:200]} is larger than FRONTIER_WARC_ONLY_BYTES, and "
            f"{where}"
        )


class WriterStopped(ArchiveError):
    """The writer thread ended; nothing submitted after that is on disk."""


class CollectionInUse(ArchiveError):
    """A collection is not purged or added to now, because somebody else works on it."""

    code = InUse.code

    def __init__(self, reason: str) -> None:
        super().__init__(f"the collection is in use: {reason}")


class CrawlCanceled(ArchiveError):
    """A crawl was canceled; its payloads are not offered to others."""

    def __init__(self, crawl_id: str) -> None:
        super().__init__(f"the crawl {crawl_id} was canceled, and is not committed")


class NotUncommitted(ArchiveError):
    """The collection has nothing of a crawl that could be committed or canceled."""

    code = NotFound.code

    def __init__(self, crawl_id: str) -> None:
        super().__init__(f"the collection has no uncommitted crawl {crawl_id}")


class SourceBroken(ArchiveError):
    """A source, or a part of it, cannot be imported."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.reason = reason


class BadWarc(ArchiveError):
    """A WARC file is cut off or damaged."""

    code = KeyDamaged.code

    def __init__(self, file: str, offset: int, reason: str) -> None:
        super().__init__(f"{file}: {reason} at byte {offset:,}")
        self.offset = offset
        self.reason = reason


class DirectoryInUse(ArchiveError):
    """Another process works in a directory in which only one can."""

    code = InUse.code

    def __init__(self, directory: str) -> None:
        super().__init__(f"another command works in {directory}")


class NoManifest(ArchiveError):
    """There is no manifest, or no plan, where one was to be used."""

    code = NotFound.code

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: there is no plan, or no manifest of this version; frontier warc "
            "manifest makes manifests, and frontier warc plan makes plans"
        )


class Unwritable(ArchiveError):
    """Other records cannot be put into a file, by its format or how it is packed."""


class StaleManifest(ArchiveError):
    """A file is no longer the one that its manifest was made of."""

    def __init__(self, file: str) -> None:
        super().__init__(f"{file} has changed since its manifest was made, or has none")


class FileTaken(ArchiveError):
    """There is already a file where one was to be made."""

    code = ConfigurationError.code

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} exists; it is not overwritten")


class FileInUse(ArchiveError):
    """Another process is writing a file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"another process writes {path}")


class BadWacz(ArchiveError):
    """A WACZ file breaks a rule, or cannot be made from what was given."""

    code = KeyDamaged.code

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}")
        self.reason = reason
