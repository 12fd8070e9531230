"""``frontier warc remove``: captures leave files, their indexes, and a collection.

``frontier warc restore``: revisits become responses again; or an extract is made.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from frontier.cli.collection import collection_named
from frontier.cli.options import Output, StoreOptions, Yes
from frontier.cli.output import ExitCode, complain, say
from frontier.cli.warc_files import (
    Files,
    Out,
    Running,
    Trouble,
    files_given,
    hold,
    manifests_of,
    originals_of,
    require_closed,
    rewritten,
    unpacked_of,
)
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from frontier.postcrawl.originals import Servers
    from frontier.postcrawl.removal import Found, Leaving, Wanted
    from frontier.postcrawl.rewriting import Rewritten
    from frontier.postcrawl.selection import Selection
    from frontier.postcrawl.wacz_files import Unpacked


COMMAND = "frontier warc remove"
STALE = (
    "The CDXJ beside each file, and each WACZ that was given, is made again. Other "
    "WACZ files of these files, copies that were uploaded, and other tools' indexes "
    "have what has left still."
)


@dataclass(frozen=True, slots=True)
class FromIndex(StoreOptions):
    """The index that captures leave, too."""

    collection: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Take them out of the index of this collection, too."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Leave:
    """Which captures leave, and why."""

    url: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="All captures of it.")
    ] = None
    url_prefix: Annotated[
        list[str] | None,
        typer.Option("--url-prefix", metavar="URL", help="All URLs that begin so."),
    ] = None
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="HOST", help="All URLs of it, without its subdomains."),
    ] = None
    replay: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="All URLs that are replayed as this one."),
    ] = None
    record: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="The record of this id.")
    ] = None
    payload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIGEST", help="All captures of the payload with this digest."
        ),
    ] = None
    lists: Annotated[
        list[Path] | None,
        typer.Option(
            "--list", metavar="FILE", help="URLs and record ids, one on each line."
        ),
    ] = None
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Written in place of each record.")
    ] = ""

    def wanted(self) -> Wanted:
        """All that they name.

        Raises:
            ConfigurationError: That is nothing, it is wrong, or the reason has several
                lines.
            OSError: A list cannot be read.
        """
        from frontier.postcrawl.removal import several, wanted_of

        more = several(self.url_prefix or (), self.host or (), self.replay or ())
        urls, ids, lists = self.url or (), self.record or (), self.lists or ()
        return wanted_of(urls, ids, lists, self.reason, more, self.payload or ())


def remove(
    given: Files,
    output: Output,
    leave: Leave,
    running: Running,
    index: FromIndex,
    yes: Yes = False,
) -> None:
    """Remove captures from WARC and WACZ files and their indexes, as after a takedown.

    Revisits that refer to one become responses first. Shows what would be done; add
    --yes to do it. If it was stopped, run it again.
    """
    trouble, wanted = Trouble(), leave.wanted()
    from frontier.postcrawl.mentions import logs_in
    from frontier.postcrawl.remote_files import RemotePath
    from frontier.postcrawl.working_directory import beside, temporary

    paths = files_given(given, trouble, waczs=True)
    if any(isinstance(path, RemotePath) for path in paths):
        raise ConfigurationError("from files elsewhere nothing can be removed")
    if not paths:  # the only ones are not closed
        require_closed(trouble, output)
    with beside(paths[0], COMMAND) if yes else temporary("remove") as scratch:
        waczs, warcs = unpacked_of(paths, scratch / "waczs", trouble)
        logs = logs_in(map(Path, given))
        removal = _Removal(
            warcs, waczs, scratch / "manifests", running, wanted, trouble, logs
        )
        facts = removal.run(index, yes=yes)
    what = "removed" if yes else "to remove, with --yes"
    if yes and facts["records"]:
        say(STALE)
        if index.collection is None:
            say("A collection's index in Redis has them still: name it (--collection).")
    trouble.end(output, facts, _lines(facts, what))
    if not (facts["records"] or facts["index_entries"]):
        complain("nothing that was given has what is to leave")
        raise typer.Exit(ExitCode.NOT_FOUND)


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
    near, shown = facts["near_misses"], 10
    for url in near[:shown]:
        yield f"{url} stays, and is replayed as a URL that leaves (--replay)"
    if len(near) > shown:
        yield f"and so it is with {len(near) - shown:,} more URLs (--json)"
    stay = facts["payloads_left"]
    for digest, count in [*stay.items()][:shown]:
        yield f"{count:,} captures that stay have the same payload (--payload {digest})"
    if len(stay) > shown:
        yield f"and so it is with {len(stay) - shown:,} more payloads (--json)"


@dataclass(slots=True)
class _Removal:
    """Captures leave *warcs*, of which some are taken out of *waczs*.

    Each step is on disk before the next: revisits that need what leaves are responses,
    then the index has it no more, then the records leave.
    """

    warcs: Sequence[Path]
    waczs: Sequence[Unpacked]
    manifests: Path
    """The directory of theirs."""
    running: Running
    wanted: Wanted
    trouble: Trouble
    logs: Sequence[Path] = ()
    """Crawl logs, which may name what leaves."""
    dependent: int = 0
    written: int = 0
    index_entries: int | None = None
    gone: list[Leaving] = field(default_factory=list)
    same: dict[str, int] = field(default_factory=dict)
    near: list[str] = field(default_factory=list)
    """URLs that stay, and are replayed as one that leaves."""
    named_in: dict[str, int] = field(default_factory=dict)
    """Lines of each crawl log, and records of each file, that name what leaves."""

    def run(self, index: FromIndex, *, yes: bool) -> dict[str, Any]:
        """Do it, or with *yes* false tell what would be done."""
        from frontier.postcrawl.removal import find, with_urls

        if not self._goes_on(0) or not self._all_read():
            return self._facts()
        self.wanted, self.near = with_urls(self.manifests, self.wanted)
        found = find(self.manifests, self.wanted)
        self.gone = found.leaving
        self.dependent = sum(map(len, found.dependent.values()))
        if not yes:
            self._note_left(found)
            self._leave_index(index, found.leaving, dry=True)
            return self._facts()
        self.gone, self.dependent = [], 0
        if found.dependent:
            if not self._restore(found) or not self._all_read():
                return self._facts()
            found = find(self.manifests, self.wanted)
        self._note_left(found)
        for at, where in found.needed.items():
            self.trouble.record(
                f"{at[0]} of {at[1]} stays: the revisit in {where} needs it"
            )
        leaving = [one for one in found.leaving if one.at not in found.needed]
        self._leave_index(index, leaving, dry=False)
        self._remove(leaving)
        return self._facts()

    def _note_left(self, found: Found) -> None:
        """Note, and say, what names the URLs of what leaves, and has its payload."""
        from frontier.postcrawl.mentions import lines_naming, records_naming

        self.same = found.same
        urls = {one.url for one in found.leaving}
        if not urls:
            return
        for path in self.logs:
            try:
                count = lines_naming(path, urls)
            except OSError as error:
                self.trouble.file(f"{path}: {error.strerror or error}")
                continue
            if count:
                self.named_in[str(path)] = count
                say(f"{path}: {count:,} lines name what leaves, and stay")
        places = {(one.file, one.record_offset) for one in found.leaving}
        names = self._names()
        for file, count in records_naming(self.manifests, urls, places).items():
            self.named_in[names.get(file, file)] = count
            say(
                f"{names.get(file, file)}: {count:,} metadata and request records of "
                "other captures name what leaves, and stay"
            )

    def _all_read(self) -> bool:
        """Whether a revisit that needs what would leave is known, if there is one.

        Of files that have not changed the manifests are those of the first time.
        """
        from frontier.postcrawl.manifest import Options

        named = len(self.trouble.files)
        options = Options(self.wanted.algorithm, every=True)
        facts = manifests_of(
            self.warcs, self.manifests, self.running, options, self.trouble
        )
        for fault in facts["faults"]:
            self.trouble.file(fault)
        return self._goes_on(named)

    def _goes_on(self, named: int) -> bool:
        """Whether no files were named since *named* of them were."""
        if len(self.trouble.files) > named:
            complain("nothing is removed: leave out what cannot be read to its end")
        return len(self.trouble.files) == named

    def _restore(self, found: Found) -> bool:
        """Make responses of the revisits that need what leaves."""
        from frontier.files import mode_of_environment
        from frontier.postcrawl.restore import restoring
        from frontier.postcrawl.selection import Selection

        files = [Path(file) for file in found.dependent]
        ids = frozenset(each for some in found.dependent.values() for each in some)
        mode = mode_of_environment()
        todo = restoring(self.manifests, files, Selection(ids=ids), mode)
        done = self.running.performed(todo, files, files, self.trouble)
        self.dependent, self.written = done["replaced"], done["written"]
        named = len(self.trouble.files)
        self._put_back(set(files), lambda _, __: False, None)
        return self._goes_on(named)

    def _leave_index(
        self, index: FromIndex, leaving: Iterable[Leaving], *, dry: bool
    ) -> None:
        if index.collection is None:
            return
        from frontier.collection.purge import Captures, remove_captures
        from frontier.store.keys import collection_keys

        single = frozenset(one.at for one in leaving)
        captures = Captures(self.wanted.urls, single)
        name = collection_named(index.collection)
        with index.connected() as store:
            keys = collection_keys(store, name)
            self.index_entries = remove_captures(store, keys, captures, dry=dry)

    def _remove(self, leaving: Sequence[Leaving]) -> None:
        from frontier.files import mode_of_environment
        from frontier.postcrawl.removal import removing

        by_file: dict[Path, list[Leaving]] = {}
        for one in leaving:
            by_file.setdefault(Path(one.file), []).append(one)

        def note(path: Path, done: Rewritten) -> None:
            some = by_file[path]
            self.gone += [o for o in some if o.record_offset not in done.kept_at]

        files = list(by_file)
        todo = removing(
            self.manifests, leaving, self.wanted.reason, mode_of_environment()
        )
        done = self.running.performed(todo, files, files, self.trouble, done=note)
        self.written += done["written"]
        left = {one.at for one in self.gone}
        changed = {Path(one.file) for one in self.gone}

        def has_left(url: str, date: str) -> bool:
            return url in self.wanted.urls or (url, date) in left

        self._put_back(changed, has_left, say)
        self.gone.sort(key=lambda one: (one.file, one.record_offset))

    def _put_back(
        self,
        changed: set[Path],
        has_left: Callable[[str, str], bool],
        tell: Callable[[str], None] | None,
    ) -> None:
        """Make the WACZ files again of which a WARC file is *changed*."""
        from frontier.errors import FrontierError
        from frontier.files import mode_of_environment
        from frontier.postcrawl.wacz_files import repack

        for wacz in self.waczs:
            inside = changed & set(wacz.warcs.values())
            if not inside:
                continue
            try:
                repack(wacz, has_left, tell or (lambda _: None), mode_of_environment())
            except (FrontierError, OSError, ValueError) as error:
                self.trouble.file(f"{wacz.path}: {error}")
                self.gone = [o for o in self.gone if Path(o.file) not in inside]

    def _names(self) -> dict[str, str]:
        """Of files that were taken out of a WACZ: where they are from."""
        return {
            str(path): f"{wacz.path}: {member}"
            for wacz in self.waczs
            for member, path in wacz.warcs.items()
        }

    def _facts(self) -> dict[str, Any]:
        names = self._names()
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
            "payloads_left": self.same,
            "near_misses": self.near,
            "named_in": self.named_in,
        }


@dataclass(frozen=True, slots=True)
class Selected:
    """Which revisits become responses."""

    url_prefix: Annotated[
        str, typer.Option("--url-prefix", metavar="URL", help="Only of these URLs.")
    ] = ""
    cdx: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only what this CDXJ file lists."),
    ] = None

    def selection(self) -> Selection:
        """The same, read."""
        from frontier.postcrawl.selection import Selection, listed
        from frontier.warc.records import escaped

        lines = listed(self.cdx) if self.cdx else None
        return Selection(escaped(self.url_prefix), lines)


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the payloads of originals are."""

    originals: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|DIRECTORY|URL",
            help="Where originals are, beside the files: WARC or WACZ files, or a CDX "
            "server's address.",
        ),
    ] = None
    replay: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The replay of the CDX server (default: its address without its last "
            "part, as pywb has it).",
        ),
    ] = ""

    def servers(self) -> Servers:
        """The CDX servers among `originals`: what is on the web and is no file's name.

        Raises:
            ConfigurationError: An address is invalid, or `replay` is of none.
        """
        from frontier.postcrawl.files import ENDINGS, WACZ, ends_with
        from frontier.postcrawl.originals import Servers
        from frontier.postcrawl.remote_files import path_of
        from frontier.settings.values import addresses as parsed

        found = [
            each
            for each in self.originals or ()
            if each.startswith(("http://", "https://"))
            and not ends_with(path_of(each).name, (*ENDINGS, WACZ))
        ]
        try:
            addresses = parsed(" ".join(found))
        except ValueError as error:
            raise ConfigurationError(f"--originals: {error}") from None
        if self.replay and not (
            addresses and self.replay.startswith(("http://", "https://"))
        ):
            raise ConfigurationError(
                "--replay is the http(s) address of a CDX server's"
            )
        return Servers(addresses, self.replay)

    def files(self) -> list[str]:
        """What `originals` names that is no server."""
        addresses = self.servers().addresses
        return [each for each in self.originals or () if each not in addresses]


def restore(
    context: typer.Context,
    given: Files,
    out: Out,
    output: Output,
    selected: Selected,
    sources: Sources,
    running: Running,
    with_originals: Annotated[
        bool,
        typer.Option(
            "--with-originals",
            help="Change nothing: write only what is selected, and its originals.",
        ),
    ] = False,
) -> None:
    """Make responses of revisits again, with the payloads of their originals.

    Originals are looked for in the files that are given, and in --originals.
    """
    trouble, directory = Trouble(), out / "manifests"
    from frontier.postcrawl.many_files import outs_of

    paths = files_given(given, trouble, without=out)
    selection, servers = selected.selection(), sources.servers()
    if with_originals and servers.addresses:
        raise ConfigurationError("--with-originals takes originals from files alone")
    outs_of(paths, out)  # nothing is begun that cannot be done
    hold(context, directory)
    further = originals_of(sources.files(), directory, trouble)
    read = list(dict.fromkeys([*paths, *further]))
    if with_originals:
        facts = _extract(read, out, running, selection, trouble)
        left = facts["left_out"]
        line = f"{facts['written']:,} files written, without {left:,} records"
    else:
        for reason in manifests_of(read, directory, running, None, trouble)["undated"]:
            trouble.record(reason)
        facts = _restore(paths, out, running, selection, servers, trouble)
        line = rewritten(facts, "responses")
    trouble.end(output, facts, [line])


def _extract(
    read: list[Path],
    out: Path,
    running: Running,
    selection: Selection,
    trouble: Trouble,
) -> dict[str, Any]:
    """Write what is selected of *read*, and its originals; change nothing."""
    from frontier.files import mode_of_environment
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.many_files import outs_of
    from frontier.postcrawl.selection import extracting

    outs, directory = outs_of(read, out), out / "manifests"
    manifests_of(read, directory, running, Options(every=True), trouble)
    todo = extracting(directory, selection, trouble.record, mode_of_environment())
    facts = running.performed(todo, read, outs, trouble)
    facts["left_out"] = facts.pop("replaced")
    return facts


def _restore(
    paths: list[Path],
    out: Path,
    running: Running,
    selection: Selection,
    servers: Servers,
    trouble: Trouble,
) -> dict[str, Any]:
    """Make responses of the revisits of *paths*."""
    from frontier.files import mode_of_environment
    from frontier.postcrawl.many_files import outs_of
    from frontier.postcrawl.restore import restoring

    directory, mode = out / "manifests", mode_of_environment()
    todo = restoring(directory, paths, selection, mode)
    todo = replace(todo, servers=servers)
    return running.performed(todo, paths, outs_of(paths, out), trouble)
