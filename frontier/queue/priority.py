"""The queues of a partition: one for each priority of a queue key.

Requests with a greater `Request.priority` are fetched first, as in Scrapy. The priority
is in the name of the queue, ``<priority>:<queue key>``, and nowhere else. Among the
queues that a node knows not to be empty, the inbox takes first from those with the
greatest priority (`frontier.node.inbox`), whatever their hosts are; equal ones take
turns. Within a queue ``FRONTIER_ORDER`` decides.
"""

from __future__ import annotations

from frontier.errors import CodecError


def queue_name(queue_key: str, priority: int) -> str:
    """The name of the queue of *queue_key* and *priority*."""
    return f"{priority}:{queue_key}"


def split_name(queue: str) -> tuple[int, str]:
    """The priority and the queue key of *queue*.

    Raises:
        CodecError: It is not the name of a queue.
    """
    priority, colon, queue_key = queue.partition(":")
    if not colon or not priority.removeprefix("-").isdecimal():
        raise CodecError(f"{queue!r} is not the name of a queue")
    return int(priority), queue_key


def readable(queue: bytes) -> str:
    """*queue* as text; empty if it is not the name of a queue."""
    try:
        name = queue.decode()
        split_name(name)
    except (CodecError, ValueError):
        return ""
    return name
