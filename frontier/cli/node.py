"""``frontier node``: take a node out of a crawl."""

from __future__ import annotations

from frontier.cli.command import Commands, CrawlOptions, argument, flag, options
from frontier.cli.output import say


@options
class NodeOptions(CrawlOptions):
    """Which node of which crawl."""

    node_id: str = argument("NODE_ID")


@options
class RemoveOptions(NodeOptions):
    """The same, and whether the node may be alive."""

    force: bool = flag("Remove it even if it is alive; it will stop.")


def drain(given: NodeOptions) -> None:
    """Tell a node to finish what it has begun, and to leave.

    It hands over the rest.
    """
    from frontier.cluster.membership import drain

    with given.connected() as store:
        drain(store, given.stored(store).keys, given.node_id)
    say(f"{given.node_id} will stop; frontier crawl status --nodes shows it")


def remove(given: RemoveOptions) -> None:
    """Remove a dead node, so that others take its partitions at once."""
    from frontier.cluster.membership import remove

    with given.connected() as store:
        crawl = given.stored(store)
        ended = remove(
            store,
            crawl.keys,
            given.node_id,
            partitions=crawl.config.partitions,
            force=given.force,
        )
    say(f"{given.node_id} is removed; its {ended:,} partitions are free")


app = Commands(
    "Take a node out of a crawl; crawl status --nodes lists them.",
    {"drain": drain, "remove": remove},
)
