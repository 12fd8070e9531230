"""``frontier crawl run``: what is to be run, the nodes that run it, and its outcome."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from frontier.cli.command import STORE_DIR, WARC_DIR, connected
from frontier.cli.node_processes import NodeProcesses, free_ids
from frontier.cli.output import ExitCode, complain, live_line, say
from frontier.errors import (
    NOTHING_TO_DO,
    ConfigurationError,
    FrontierError,
    StoreUnavailable,
)
from frontier.files import make_directory, mode_of
from frontier.metrics.exposition import require_library
from frontier.model import frozen
from frontier.recrawl.rules import rules_file
from frontier.recrawl.schedule import Kind, schedule_of
from frontier.session.launch import VARIABLE, joins_only, launched
from frontier.settings import values as parsers
from frontier.settings.config import PREFIX, Config
from frontier.status.sections import one_line
from frontier.status.snapshot import crawl_entered
from frontier.status.text import counted, duration, first_of
from frontier.status.validate import printable
from frontier.status.watch import Watch, Watched
from frontier.store.address import ENVIRONMENT
from frontier.store.calls import Call, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frontier.cli.projects import Project
    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore


SITE, FOLLOWER = "site", "feeds"
"""The spiders that come with this package."""
CLUSTER = "cluster"
"""The variant of our own project's settings for users who have a server."""
OURS = ("FRONTIER_NODE_ID", "REDIS_URL")
"""Settings that the command itself gives to every node."""
CANON_RULES = "FRONTIER_CANON_RULES"
"""The setting whose value is a name, or a file if it ends in ``.toml``."""


@frozen
class Plan:
    """What is to be run. Paths are absolute."""

    project: Project
    spider: str
    arguments: Mapping[str, str]
    """The spider's own arguments."""
    nodes: int
    redis_url: str
    """A server that the project's own settings do not name; may be empty."""
    config: Config
    settings: Mapping[str, str]
    """Settings of every node, in addition to those that the plan implies."""
    feeds: Sequence[str] = ()
    """Where the items go, in place of the feeds of the project's settings."""
    left_out: str = ""
    """What of the seed list is no seed, in one line; empty if nothing is."""

    @property
    def server(self) -> Mapping[str, Any]:
        """The ``REDIS_*`` settings of the nodes; empty for an embedded store."""
        if self.redis_url:
            return {"REDIS_URL": self.redis_url}
        found = {**self.project.settings, **self.settings}
        return {n: value for n, value in found.items() if n.startswith("REDIS_")}

    @property
    def log_dir(self) -> Path:
        """Where the nodes' logs go."""
        return self.config.store_dir / "logs"


@frozen
class Outcome:
    """What became of a run."""

    watched: Watched | None
    """The crawl after the nodes had left it; ``None`` if none entered one."""
    nodes: NodeProcesses
    is_away: bool = False
    """Whether the store does not answer, as nodes have said."""

    @property
    def crawl(self) -> CrawlSnapshot | None:
        """The crawl alone, without what only a watch can tell."""
        return self.watched.crawl if self.watched is not None else None

    @property
    def exit_code(self) -> ExitCode:
        """How the command has to end."""
        if self.nodes.interrupted:
            return ExitCode.INTERRUPTED
        if self.is_away:
            return ExitCode.STORE_UNAVAILABLE
        codes, seen = {node.exit_code for node in self.nodes.failed()}, self.crawl
        if ExitCode.FAULTY in codes or (seen is not None and seen.harmed):
            return ExitCode.FAULTY
        if seen is not None and seen.left_out:
            return ExitCode.CRAWL_FAILED if codes - {1} else ExitCode.INCOMPLETE
        if self.nodes.failed() or (seen is None and not self.too_late):
            return ExitCode.CRAWL_FAILED
        return ExitCode.OK

    @property
    def is_whole(self) -> bool:
        """Whether the crawl has ended with nothing left, though a node failed."""
        seen, failed = self.crawl, self.nodes.failed()
        is_over = seen is not None and seen.state == "finished" and seen.fetched
        return is_over and 0 < len(failed) < len(self.nodes.every)

    @property
    def too_late(self) -> bool:
        """Whether the crawl of the nodes' run had ended before they came."""
        news = self.nodes.news.values()
        return self.watched is None and any(n.endswith(NOTHING_TO_DO) for n in news)


def site_arguments(seeds: str, scope: str) -> tuple[dict[str, str], str]:
    """The arguments of the spider ``site``; *seeds* is a URL, or the path of a file.

    The text says, in one line, what of it is no seed; it is empty if nothing is.

    Raises:
        ConfigurationError: There is no such scope, or no seed.
    """
    from frontier.seeds.read import seeds_and_faults
    from frontier.urls.scope import Scope

    urls, faults = seeds_and_faults(seeds)
    Scope(scope, urls)
    many = counted(len(faults), "line")
    what = f"{many} of {seeds[:200]} left out as no seed: {first_of(faults, 1)}"
    there = seeds if "://" in seeds else str(Path(seeds).absolute())
    # As for a node that is started by hand: with other arguments it has another crawl.
    more = {} if scope == "host" else {"scope": scope}
    return {"seeds": there, **more}, what if faults else ""


def feeds_arguments(given: str) -> dict[str, str]:
    """The arguments of the spider ``feeds``; *given* is a file, or a database's URL.

    Raises:
        ConfigurationError: It is no URL of a database, or the file cannot be used.
    """
    from frontier.feeds.sources import absolute, is_database, source_of

    source = source_of(given)
    if not is_database(given):  # one that is down now may come back
        source.read()
    return {"feeds": absolute(given)}


def from_here(settings: Mapping[str, str]) -> dict[str, str]:
    """*settings* with absolute paths, for nodes that run in our project's directory."""
    paths = {
        f"{PREFIX}{each.name.upper()}"
        for each in fields(Config)
        if each.metadata["parser"] in {parsers.directory, parsers.optional_directory}
    }
    found = dict(settings)
    for name, path in settings.items():
        is_file = name == CANON_RULES and path.endswith(".toml")
        if path and (is_file or name in paths):
            found[name] = os.path.abspath(path)  # noqa: PTH100 (links stay)
    return found


def configuration(
    settings: Mapping[str, str],
    store: Path,
    warcs: Path,
    project: Mapping[str, Any] | None = None,
) -> Config:
    """The nodes' configuration, with absolute paths.

    *settings*, which the user set, come first; then *store* and *warcs*, if they are
    not the usual ones, and then what *project* sets.

    Raises:
        ConfigurationError: One of the settings is unknown, wrong or not the
            user's to set, or the rules of recrawls cannot be used.
    """
    for name in OURS:
        if name in settings:
            raise ConfigurationError(f"{name} cannot be set with -s here")
    paths = {"FRONTIER_STORE_DIR": str(store), "FRONTIER_WARC_DIR": str(warcs)}
    usual = {str(STORE_DIR), str(WARC_DIR)}
    asked = {name: path for name, path in paths.items() if path not in usual}
    found = {n: v for n, v in (project or {}).items() if n.startswith(PREFIX)}
    chosen: dict[str, Any] = {**paths, **found, **asked, **settings}
    for name in paths:
        if chosen[name]:  # the empty one is refused below
            chosen[name] = os.path.abspath(chosen[name])  # noqa: PTH100 (links stay)
    config = Config.from_settings(chosen)
    for name in paths:
        path = Path(chosen[name])
        there = next(each for each in (path, *path.parents) if each.exists())
        if not there.is_dir():
            raise ConfigurationError(f"{name}: {there} is not a directory")
    if config.metrics_port:
        require_library("FRONTIER_METRICS_PORT")
    schedule = schedule_of(config)
    if config.recrawl_rules is not None and schedule.kind is not Kind.OFF:
        rules_file(config.recrawl_rules, schedule).read()  # raises here, not in nodes
    return config


@dataclass(slots=True)
class _Sight:
    """The crawl that the nodes of a run have entered, as it is looked at meanwhile."""

    plan: Plan
    store: BlockingStore
    node_ids: Sequence[str]
    since: float
    """When the run began, in seconds since the Unix epoch, on the store's clock."""
    started: float = field(default_factory=time.monotonic)
    watch: Watch | None = None

    def entered(self) -> Watch | None:
        """A new watch of the crawl that one of the nodes entered, if any did."""
        plan, namespace = self.plan, self.plan.config.namespace
        names = (plan.spider, self.node_ids, self.since)
        found = crawl_entered(self.store, namespace, *names)
        return None if found is None else Watch(self.store, namespace, found)

    def look(self) -> tuple[str, str]:
        """How the crawl is doing, in a line, and what its nodes wait for."""
        lasts = duration(time.monotonic() - self.started)
        try:
            if self.watch is None:
                self.watch = self.entered()
                if self.watch is None:
                    return f"starting the nodes, {lasts}", ""
                many = f"spider {self.plan.spider}, {counted(self.plan.nodes, 'node')}"
                where = f"their logs are in {self.plan.log_dir}"
                crawl = self.watch.look().crawl
                name, left = crawl.crawl_id, crawl.queue.ready + crawl.queue.reserved
                if crawl.created_ms < 1000 * self.since:
                    name += f" goes on with {counted(left, 'queued request')}"
                say(f"crawl {name}, {many}; {where}")
                self._tell_of_others(crawl)
            crawl = self.watch.look().crawl
        except StoreUnavailable as error:  # the nodes say why
            waits = f"the nodes wait for the store at {error.where}"
            return f"{lasts}  {waits}", waits
        except FrontierError as error:  # which ends the nodes, if they meet it
            return f"{lasts}  {error}", ""
        return f"{lasts}  {one_line(crawl)}", first_of(crawl.waits, 1)

    def _tell_of_others(self, crawl: CrawlSnapshot) -> None:
        """Name the nodes that take part besides ours, such as those left by a kill."""
        live = [node.node_id for node in crawl.nodes if node.state == "live"]
        if others := [name for name in live if name not in self.node_ids]:
            part = "takes part" if len(others) == 1 else "take part"
            names, crawl_id = first_of(others, 3), crawl.crawl_id
            say(f"{names} {part} in {crawl_id} already, started elsewhere")


def run(plan: Plan) -> Outcome:
    """Start the nodes, wait for them, and look at what they leave behind."""
    with connected(plan.server, plan.config.store_dir, create=True) as store:
        since = time.time()
        with contextlib.suppress(StoreUnavailable):  # for which the nodes wait
            since = milliseconds(store.call(Call.command("TIME"))) / 1000
        mode = mode_of(plan.config.file_mode)
        make_directory(plan.log_dir, mode)
        nodes = NodeProcesses(say, complain, mode)
        with contextlib.ExitStack() as held, nodes.passing_on_signals():
            node_ids = [f"{plan.config.node_id}-{n}" for n in range(1, plan.nodes + 1)]
            if not plan.server:
                where = plan.log_dir, plan.config
                node_ids = free_ids(store, plan.spider, plan.nodes, *where, held)
            _start(plan, nodes, node_ids)
            sight = _Sight(plan, store, node_ids, since)
            with live_line(sight.look) as tick:
                nodes.wait(tick)
        try:
            watch = sight.entered()  # a new one, so that it reads everything now
            return Outcome(None if watch is None else watch.look(), nodes)
        except StoreUnavailable as error:
            if not any(error.where in line for line in nodes.news.values()):
                raise
            return Outcome(None, nodes, is_away=True)


def _start(plan: Plan, nodes: NodeProcesses, node_ids: Sequence[str]) -> None:
    """Start a node for each of *node_ids*, until a signal comes."""
    env = {name: value for name, value in os.environ.items() if name != ENVIRONMENT}
    if plan.redis_url:  # it may have a password, and arguments are public
        env[ENVIRONMENT] = plan.redis_url
        env |= {"SCRAPY_PROJECT": CLUSTER} if plan.project.is_ours else {}
    # One run, so that a node that is slow to start finds that it comes too late; or
    # the run that somebody else has named.
    if not (launched(env) or plan.config.join_only or joins_only(env)):
        env[VARIABLE] = f"crawl run {secrets.token_hex(8)}"
    stamp = time.strftime("%Y%m%dT%H%M%S")
    for node_id in node_ids:
        if nodes.interrupted:
            break
        nodes.start(
            node_id,
            _command(plan, node_id),
            log=plan.log_dir / f"{stamp}-{node_id}.log",
            cwd=plan.project.directory,
            env=env,
        )


def logs(nodes: NodeProcesses) -> Iterator[Text]:
    """Where the nodes' logs are."""
    yield Text()
    if nodes.every:
        yield Text(f"Logs in {nodes.every[0].log.parent}:")
    for node in nodes.every:
        yield Text(f"  {printable(node.log.name)}")


def _command(plan: Plan, node_id: str) -> Sequence[str]:
    settings = {
        "LOG_FILE": "",  # the log of each node goes where the command says
        **({"FRONTIER_OWN_FEEDS": "True"} if plan.nodes > 1 else {}),
        **plan.settings,
        "FRONTIER_STORE_DIR": str(plan.config.store_dir),
        "FRONTIER_WARC_DIR": str(plan.config.warc_dir),
        "FRONTIER_NODE_ID": node_id,
    }
    command = ["crawl", plan.spider]
    for name, value in plan.arguments.items():
        command += ["-a", f"{name}={value}"]
    for name, value in settings.items():
        command += ["-s", f"{name}={value}"]
    for uri in plan.feeds:
        command += ["-o", uri]
    return command
