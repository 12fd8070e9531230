"""Running a crawl: nodes on this machine, until they have finished it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from frontier.cli.node_processes import Nodes
from frontier.cli.options import STORE_DIR, WARC_DIR, connected
from frontier.cli.output import ExitCode, complain, say
from frontier.cli.progress import ProgressLine
from frontier.cli.project import FEEDS
from frontier.errors import NOTHING_TO_DO, ConfigurationError, UnknownCrawl
from frontier.files import make_directory, mode_of
from frontier.session.launch import VARIABLE, launched
from frontier.settings.config import PREFIX, Config
from frontier.status.snapshot import crawl_entered, open_crawl, snapshot
from frontier.status.validate import printable
from frontier.store.address import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frontier.cli.project import Project
    from frontier.status.views import CrawlSnapshot
    from frontier.store.client import BlockingStore

SITE = "site"
"""The spider that comes with this package."""
NODE = "%(frontier_node)s"
"""The node, in the name of a feed; see `frontier.pipelines.feed_uri_params`."""
OURS = ("FRONTIER_NODE_ID", "REDIS_URL")
"""Settings that every node is given by the command itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run. Paths are absolute."""

    project: Project
    spider: str
    arguments: Mapping[str, str]
    """The spider's own."""
    nodes: int
    redis_url: str
    """A server that the project's own settings do not name; may be empty."""
    config: Config
    settings: Mapping[str, str]
    """Settings of every node, beside those that the plan implies."""

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a run."""

    snapshot: CrawlSnapshot | None
    """The crawl after the nodes had left it; ``None`` if none entered one."""
    nodes: Nodes

    @property
    def exit_code(self) -> ExitCode:
        """How the command has to end."""
        if self.nodes.interrupted:
            return ExitCode.INTERRUPTED
        if self.snapshot is not None and self.snapshot.harmed:
            return ExitCode.INCOMPLETE
        if self.nodes.failed() or (self.snapshot is None and not self.too_late):
            return ExitCode.CRAWL_FAILED
        return ExitCode.OK

    @property
    def too_late(self) -> list[str]:
        """What the nodes say if the crawl of their run had ended before they came."""
        if self.snapshot is not None:
            return []
        said = {line for node in self.nodes.every for line in node.warnings()}
        return sorted(line for line in said if line.endswith(NOTHING_TO_DO))


def site_arguments(seeds: str, scope: str) -> dict[str, str]:
    """The arguments of the spider ``site``; *seeds* is a URL, or the path of a file.

    Raises:
        ConfigurationError: There is no such scope, or no seed.
    """
    from frontier.seeds.read import read_seeds
    from frontier.urls.scope import Scope

    Scope(scope, read_seeds(seeds))
    there = seeds if "://" in seeds else str(Path(seeds).absolute())
    return {"seeds": there, "scope": scope}


def configuration(
    settings: Mapping[str, str],
    store: Path,
    warcs: Path,
    project: Mapping[str, Any] | None = None,
) -> Config:
    """The nodes' configuration, with absolute paths.

    *settings* are what the user set; then come *store* and *warcs*, if they are not
    the usual ones, and then what *project* sets.

    Raises:
        ConfigurationError: One of the settings is unknown, wrong or not the
            user's to set.
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
    return Config.from_settings(chosen)


def run(plan: Plan) -> Outcome:
    """Start the nodes, wait for them, and look at what they leave behind."""
    for uri in _shared_feeds(plan):
        complain(
            f"all {plan.nodes} nodes write the feed {printable(uri)}: lines are mixed, "
            f"or only those of the last node stay; write {NODE} into its name"
        )
    inherited = {k: v for k, v in os.environ.items() if k != ENVIRONMENT}
    env = {**inherited, **plan.project.environment_for(plan.redis_url)}
    if not launched(env):  # one run: a node that is slow to start comes too late
        env[VARIABLE] = f"crawl run {secrets.token_hex(8)}"
    started = time.time()
    stamp = time.strftime("%Y%m%dT%H%M%S", time.localtime(started))
    namespace = plan.config.namespace
    with connected(plan.server, plan.config.store_dir, create=True) as store:
        mode = mode_of(plan.config.file_mode)
        make_directory(plan.log_dir, mode)
        nodes = Nodes(mode)
        node_ids = _free_ids(store, plan)
        with nodes.passing_on_signals():
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
            with ProgressLine(
                store, namespace, plan.spider, node_ids, started
            ) as progress:
                nodes.wait(progress.tick)
        crawl_id = crawl_entered(store, namespace, plan.spider, node_ids, started)
        if crawl_id is None:
            return Outcome(None, nodes)
        ttl = plan.config.lease_ttl
        return Outcome(snapshot(store, namespace, crawl_id, lease_ttl=ttl), nodes)


def _shared_feeds(plan: Plan) -> list[str]:
    """URIs in ``FEEDS`` that are the same on all nodes, if there are several."""
    feeds = plan.settings.get(FEEDS) or plan.project.settings.get(FEEDS) or {}
    if isinstance(feeds, str):
        try:
            feeds = json.loads(feeds)
        except ValueError:
            feeds = {}  # each node says so
    uris = [str(uri) for uri in feeds] if plan.nodes > 1 else []
    return [uri for uri in uris if NODE not in uri and not uri.startswith("stdout:")]


def complain_of(nodes: Nodes) -> None:
    """Say which nodes failed, why, and which logs tell more; unless by a signal."""
    if nodes.interrupted:
        return
    said: set[str] = set()
    for node in nodes.failed():
        how = f"exit code {node.exit_code}"
        if (node.exit_code or 0) < 0:
            how = f"signal {-(node.exit_code or 0)}"
        complain(f"{node.node_id} failed with {how}; its log is {node.log}")
        for line in node.errors():
            if line not in said:
                said.add(line)
                say(f"  {line}")


def logs(nodes: Nodes) -> Iterator[Text]:
    """Where the nodes' logs are."""
    yield Text()
    if nodes.every:
        yield Text(f"Logs in {nodes.every[0].log.parent}:")
    for node in nodes.every:
        yield Text(f"  {printable(node.log.name)}")


def _free_ids(store: BlockingStore, plan: Plan) -> list[str]:
    """``node-1`` and up, without those that the crawl has, or had, already.

    A node that had an earlier one's name would overwrite its report.
    """
    namespace = plan.config.namespace
    crawl_id = plan.config.crawl_id or open_crawl(store, namespace, plan.spider)
    taken: set[str] = set()
    if crawl_id is not None:
        with contextlib.suppress(UnknownCrawl):  # it need not be there yet
            taken = {n.node_id for n in snapshot(store, namespace, crawl_id).nodes}
    free: list[str] = []
    number = 1
    while len(free) < plan.nodes:
        if f"node-{number}" not in taken:
            free.append(f"node-{number}")
        number += 1
    return free


def _command(plan: Plan, node_id: str) -> Sequence[str]:
    settings = {
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
    return command
