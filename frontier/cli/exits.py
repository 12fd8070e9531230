"""How a command ends: one exit code for each thing that a caller may act on."""

from __future__ import annotations

from enum import IntEnum

from frontier.errors import (
    CollectionInUse,
    CommitBegun,
    ConfigurationError,
    CrawlClosed,
    CrawlOpen,
    FileTaken,
    FrontierError,
    FrontierRemoved,
    NodeLives,
    NotUncommitted,
    StoreError,
    UnknownCollection,
    UnknownCrawl,
    UnknownNode,
)


class ExitCode(IntEnum):
    """What the exit codes of ``frontier`` mean."""

    OK = 0
    """It was done."""
    CRAWL_FAILED = 1
    """A node failed, or the demo's crawl lost a URL or fetched one twice."""
    USAGE = 2
    """An option, a setting or a seed list is wrong; nothing was started."""
    STORE_UNAVAILABLE = 3
    """There is no store, or it does not answer, or it refuses."""
    NOT_FOUND = 4
    """The store does not have what was asked for."""
    IN_USE = 5
    """It was not stopped or removed, because it is in use."""
    INCOMPLETE = 6
    """Some of what was given could not be used, or partitions of the crawl are set
    aside; the rest was."""
    FAULTY = 7
    """What was checked has faults, or the rules refuse the URL."""
    UNWRITABLE = 8
    """A file, or the output, could not be read or written; the message names it."""
    INTERRUPTED = 130
    """A signal ended it; the crawl is still open and can be resumed."""


def exit_code_of(error: FrontierError) -> ExitCode:
    """The code with which a command ends that *error* has ended."""
    if isinstance(error, ConfigurationError | FileTaken):
        return ExitCode.USAGE
    if isinstance(error, StoreError):
        return ExitCode.STORE_UNAVAILABLE
    gone = UnknownCrawl | UnknownNode | CrawlClosed | NotUncommitted | FrontierRemoved
    if isinstance(error, gone | UnknownCollection):
        return ExitCode.NOT_FOUND
    if isinstance(error, NodeLives | CollectionInUse | CommitBegun | CrawlOpen):
        return ExitCode.IN_USE
    return ExitCode.CRAWL_FAILED
