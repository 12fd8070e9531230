"""``frontier warc remove``: take captures out of files, indexes, and a collection.

``frontier warc restore``: turn revisits into responses again, or make an extract.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from frontier.cli.command import (
    COLLECTION,
    Consent,
    StoreOptions,
    flag,
    option,
    options,
)
from frontier.cli.output import ExitCode, Shown, complain, say
from frontier.cli.warc_files import (
    Files,
    Originals,
    Out,
    Running,
    Trouble,
    files_given,
    hold,
    manifests_of,
    originals_of,
    rewritten,
    unpacked_of,
)
from frontier.errors import ConfigurationError, FrontierError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frontier.postcrawl.removal import Found, Leaving, Wanted
    from frontier.postcrawl.selection import Selection
    from frontier.postcrawl.wacz_files import Unpacked


STALE = (
    "The CDXJ beside each file, and each WACZ that was given, is made again. Other "
    "WACZ files of these files, uploaded copies, other tools' indexes, crawl logs, and "
    "the metadata and requests of other captures may name what has left still."
)


@options
class RemoveOptions(Consent, Files, Running, StoreOptions):
    """Which captures leave, why, and the collection whose index they leave, too."""

    collection: str | None = option(
        None,
        "NAME",
        "Take them out of the index of this collection, too.",
        type=COLLECTION,
    )
    url: list[str] = option((), "URL", "All captures of it.")
    url_prefix: list[str] = option((), "URL", "All URLs that begin with this one.")
    host: list[str] = option((), "HOST", "All URLs of it, without its subdomains.")
    replay: list[str] = option((), "URL", "All URLs that are replayed as this one.")
    record: list[str] = option((), "ID", "The record of this id.")
    payload: list[str] = option(
        (), "DIGEST", "All captures of the payload with this digest."
    )
    lists: list[Path] = option(
        (), "FILE", "URLs and record ids, one on each line.", "--list"
    )
    reason: str = option("", "TEXT", "The reason, written in place of each record.")

    def wanted(self) -> Wanted:
        """All that the options name.

        Raises:
            ConfigurationError: They name nothing, or something invalid, or the reason
                has several lines.
            OSError: A list cannot be read.
        """
        from frontier.postcrawl.removal import wanted_of

        return wanted_of(
            self.url,
            self.record,
            self.lists,
            self.reason,
            self.payload,
            self.url_prefix,
            self.host,
            self.replay,
        )


def remove(how: RemoveOptions) -> Shown:
    """Remove captures, as after a takedown.

    They leave WARC and WACZ files and their indexes. Revisits that refer to one become
    responses first. Shows its plan first; add --yes to do it. If it was stopped, run it
    again.
    """
    trouble, wanted = Trouble(), how.wanted()
    from frontier.files import LINK
    from frontier.postcrawl.working_directory import beside
    from frontier.warc.remote_files import RemotePath

    paths = files_given(how.given, trouble, waczs=True)
    if any(isinstance(path, RemotePath) for path in paths):
        raise ConfigurationError("captures can only be removed from local files")
    for path in paths:
        if path.is_symlink():  # its name would be of a new file, and the old one stay
            trouble.file(f"{path}: {LINK}")
    if not paths:  # all that were given are not closed
        trouble.require_closed(how)
    with (
        beside(paths[0]) if how.yes else TemporaryDirectory(prefix="frontier-") as name
    ):
        scratch = Path(name)
        waczs, warcs = unpacked_of(paths, scratch / "waczs", trouble)
        manifests = scratch / "manifests"
        removal = _Removal(warcs, waczs, manifests, how, wanted, trouble)
        removal.run()
        said = removal.facts()
    what = "removed" if how.yes else "to remove"
    if how.yes and said["records"]:
        say(STALE)
        if how.collection is None:
            say(
                "A collection's index in Redis still has them: name it with "
                "--collection."
            )
    shown = trouble.shown(said, _lines(said, what))
    if said["records"] or said["index_entries"]:
        if not how.yes:
            refusal = "nothing was removed; add --yes to remove them"
            shown = replace(shown, faults=[refusal], code=ExitCode.USAGE)
        return shown
    if shown.code:
        return shown
    nothing = "nothing to remove was found in the files given"
    return replace(shown, faults=[nothing], code=ExitCode.NOT_FOUND)


def _lines(facts: dict[str, Any], what: str) -> Iterator[str]:
    for one in facts["records"]:
        where = f"{one['file']} at byte {one['offset']:,}"
        yield f"{where}: a {one['type']} of {one['url']}"
    yield (
        f"{len(facts['records']):,} records {what}; {facts['dependent']:,} revisits of "
        f"them become responses"
    )
    if facts["index_entries"] is not None:
        yield f"{facts['index_entries']:,} entries of the collection's index"
    told = [
        f"{url} stays, and is replayed as a URL that leaves (--replay)"
        for url in facts["near_misses"]
    ]
    told += [
        f"{count:,} captures that stay have the same payload (--payload {digest})"
        for digest, count in facts["payloads_left"].items()
    ]
    shown = 20
    yield from told[:shown]
    if len(told) > shown:
        yield f"and so it is with {len(told) - shown:,} more (--json)"


@dataclass(slots=True)
class _Removal:
    """Takes captures out of *warcs*, some of which were unpacked from *waczs*.

    Each step is on disk before the next begins: revisits that need what leaves become
    responses, then the index loses its entries, then the records leave.
    """

    warcs: Sequence[Path]
    waczs: Sequence[Unpacked]
    manifests: Path
    """The directory of their manifests."""
    how: RemoveOptions
    wanted: Wanted
    trouble: Trouble
    dependent: int = 0
    written: int = 0
    index_entries: int | None = None
    gone: list[Leaving] = field(default_factory=list)
    found: Found | None = None

    def run(self) -> None:
        """Do it, or without ``--yes`` find what would be done."""
        from frontier.postcrawl.removal import find

        if not self._goes_on(0) or not self._all_read():
            return
        self.found = found = find(self.manifests, self.wanted)
        if not self.how.yes:
            self.gone = found.leaving
            self.dependent = sum(map(len, found.dependent.values()))
            self._leave_index(found.urls, found.leaving)
            return
        if found.dependent:
            if not self._restore(found) or not self._all_read():
                return
            found = find(self.manifests, self.wanted)
        for at, where in found.needed.items():
            self.trouble.record(
                f"{at[0]} of {at[1]} stays: the revisit in {where} needs it"
            )
        leaving = [one for one in found.leaving if one.at not in found.needed]
        self._leave_index(found.urls, leaving)
        self._remove(found.urls, leaving)

    def _all_read(self) -> bool:
        """Read all files; return if each revisit that needs what would leave is known.

        Files that have not changed since keep the manifests of the first time.
        """
        from frontier.postcrawl.manifest import Options

        named = len(self.trouble.files)
        options = Options(self.wanted.algorithm, every=True)
        facts = manifests_of(
            self.warcs, self.manifests, self.how, self.trouble, options
        )
        for fault in facts["faults"]:
            self.trouble.file(fault)
        return self._goes_on(named)

    def _goes_on(self, named: int) -> bool:
        """Whether no files failed after the first *named*; complain if some did."""
        if len(self.trouble.files) > named:
            complain(
                "nothing was removed: leave out links, and the files that cannot be "
                "read to the end"
            )
        return len(self.trouble.files) == named

    def _restore(self, found: Found) -> bool:
        """Turn revisits that need what leaves into responses; return if that worked."""
        from frontier.postcrawl.restore import restoring
        from frontier.postcrawl.selection import Selection

        files = [Path(file) for file in found.dependent]
        ids = frozenset(each for some in found.dependent.values() for each in some)
        todo = restoring(self.manifests, files, Selection(ids=ids))
        done = self.how.performed(todo, files, files, self.trouble)
        self.dependent, self.written = done["replaced"], done["written"]
        named = len(self.trouble.files)
        self._put_back(set(files), lambda _, __: False)
        return self._goes_on(named)

    def _leave_index(self, urls: set[str], leaving: Sequence[Leaving]) -> None:
        if self.how.collection is None:
            return
        from frontier.collection.purge import Captures, remove_captures
        from frontier.store.keys import collection_keys

        single = frozenset(one.at for one in leaving)
        captures = Captures(frozenset(urls), single)
        with self.how.connected() as store:
            keys = collection_keys(store, self.how.collection)
            dry = not self.how.yes
            self.index_entries = remove_captures(store, keys, captures, dry=dry)

    def _remove(self, urls: set[str], leaving: Sequence[Leaving]) -> None:
        from frontier.postcrawl.removal import removing

        files = list(dict.fromkeys(Path(one.file) for one in leaving))
        todo = removing(self.manifests, leaving, self.wanted.reason)
        done = self.how.performed(todo, files, files, self.trouble)
        self.written += done["written"]
        kept = done["kept_at"]
        self.gone = [
            one
            for one in leaving
            if one.record_offset not in kept.get(Path(one.file), {one.record_offset})
        ]
        left = {one.at for one in self.gone}

        def has_left(url: str, date: str) -> bool:
            return url in urls or (url, date) in left

        self._put_back({Path(one.file) for one in self.gone}, has_left, say)

    def _put_back(
        self,
        changed: set[Path],
        has_left: Callable[[str, str], bool],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Make again the WACZ files that have a *changed* WARC file."""
        from frontier.postcrawl.wacz_files import repack

        for wacz in self.waczs:
            inside = changed & set(wacz.warcs.values())
            try:
                if inside:
                    repack(wacz, has_left, tell)
            except (FrontierError, OSError, ValueError) as error:
                self.trouble.file(f"{wacz.path}: {error}")
                self.gone = [o for o in self.gone if Path(o.file) not in inside]

    def facts(self) -> dict[str, Any]:
        """What was done, or would be."""
        names = {  # for files that were unpacked from a WACZ: where they are from
            str(path): f"{wacz.path}: {member}"
            for wacz in self.waczs
            for member, path in wacz.warcs.items()
        }
        records = [
            {
                "file": names.get(one.file, one.file),
                "offset": one.record_offset,
                "record_id": one.record_id,
                "type": one.kind,
                "url": one.url,
                "date": one.date,
            }
            for one in self.gone
        ]
        return {
            "records": records,
            "dependent": self.dependent,
            "written": self.written,
            "index_entries": self.index_entries,
            "payloads_left": self.found.same if self.found else {},
            "near_misses": self.found.near if self.found else [],
        }


@options
class RestoreOptions(Files, Out, Running, Originals):
    """Which revisits become responses, and where."""

    url_prefix: str = option("", "URL", "Only of these URLs.")
    cdx: Path | None = option(None, "FILE", "Only what this CDXJ file lists.")
    with_originals: bool = flag(
        "Change nothing: write only the selected records and their originals."
    )

    def selection(self) -> Selection:
        """The records of ``--url-prefix`` and ``--cdx``."""
        from frontier.postcrawl.selection import Selection, listed
        from frontier.warc.records import escaped

        lines = listed(self.cdx) if self.cdx else None
        return Selection(escaped(self.url_prefix), lines)


def restore(how: RestoreOptions) -> Shown:
    """Turn revisits back into responses with their payloads.

    Originals are looked for in the files that are given, and in --originals.
    """
    trouble, out, directory = Trouble(), how.out, how.out / "manifests"
    from frontier.postcrawl.files import outs_of
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.restore import restoring
    from frontier.postcrawl.selection import extracting

    paths = files_given(how.given, trouble, without=out)
    selection, every = how.selection(), how.with_originals
    outs_of(paths, out)  # raises before anything is begun
    with hold(directory):
        further = originals_of(how.originals, directory, trouble)
        read = list(dict.fromkeys([*paths, *further]))
        facts = manifests_of(read, directory, how, trouble, Options(every=every))
        for reason in facts["undated"]:
            trouble.record(reason)
        if every:
            paths = read
            todo = extracting(directory, selection, trouble.record)
        else:
            todo = restoring(directory, paths, selection)
        said = how.performed(todo, paths, outs_of(paths, out), trouble)
    line = rewritten(said, "responses")
    if every:
        left = said["left_out"] = said.pop("replaced")
        line = f"{said['written']:,} files written, without {left:,} records"
    return trouble.shown(said, [line])
