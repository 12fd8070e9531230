"""``frontier warc restore``: revisits become responses again; or an extract is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 (typer evaluates the annotations)
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from frontier.cli.options import Output
from frontier.cli.warc_files import (
    Bar,
    Files,
    Out,
    Running,
    Trouble,
    collected,
    files_given,
    hold,
    manifests_of,
    originals_of,
    rewritten,
    troubles,
)
from frontier.errors import ConfigurationError

if TYPE_CHECKING:
    from frontier.postcrawl.originals import Servers
    from frontier.postcrawl.selection import Selection


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
    from frontier.postcrawl.many_files import outs_of

    trouble, directory = Trouble(), out / "manifests"
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
    output.result(facts | troubles(trouble), [Text(line)])
    trouble.exit()


def _extract(
    read: list[Path],
    out: Path,
    running: Running,
    selection: Selection,
    trouble: Trouble,
) -> dict[str, Any]:
    """Write what is selected of *read*, and its originals; change nothing."""
    from frontier.postcrawl.manifest import Options
    from frontier.postcrawl.many_files import extracted, outs_of
    from frontier.postcrawl.selection import needed

    outs, directory = outs_of(read, out), out / "manifests"
    manifests_of(read, directory, running, Options(every=True), trouble)
    wanted = needed(directory, selection)
    for reason in wanted.missing:
        trouble.record(reason)
    with Bar("writing", read) as progress:
        work = running.work(directory, progress)
        found = extracted(read, outs, work, selection, wanted.originals)
        facts = collected(found, trouble)
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
    from frontier.postcrawl.many_files import outs_of, restored

    outs = outs_of(paths, out)
    with Bar("restoring", paths) as progress:
        work = running.work(out / "manifests", progress)
        return collected(restored(paths, outs, work, selection, servers), trouble)
