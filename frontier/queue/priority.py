"""The queues of a partition: one for each priority of a queue key.

A request with the greater `Request.priority` is fetched first, as in Scrapy. Its
priority is in the name of its queue, ``<priority>:<queue key>``, and nowhere else.
Among the queues that a node knows to have something, the inbox takes first from those
with the greatest priority (`frontier.node.inbox`), whatever their hosts are; equal ones
take turns. Within a queue ``FRONTIER_ORDER`` decides.

Requests that only one process can make have queues of that process,
``<priority>@<process>:<queue key>`` (`frontier.queue.item`).
"""

from __future__ import annotations

import secrets

from frontier.errors import CodecError

PROCESS = 12
"""Characters of the name of a process."""


def queue_name(queue_key: str, priority: int, process: str = "") -> str:
    """The name of the queue of *queue_key* and *priority*; of *process*, if any."""
    return f"{priority}@{process}:{queue_key}" if process else f"{priority}:{queue_key}"


def split_name(queue: str) -> tuple[int, str]:
    """The priority and the queue key of *queue*.

    Raises:
        CodecError: It is not the name of a queue.
    """
    head, colon, queue_key = queue.partition(":")
    priority, at, process = head.partition("@")
    is_named = not at or is_process(process)
    if not colon or not priority.removeprefix("-").isdecimal() or not is_named:
        raise CodecError(f"{queue!r} is not the name of a queue")
    return int(priority), queue_key


def readable(queue: bytes) -> str:
    """The name of a queue that *queue* is; empty if it is none."""
    try:
        name = queue.decode()
        split_name(name)
    except (CodecError, ValueError):
        return ""
    return name


def process_of(queue: str) -> str:
    """The process whose requests are in *queue*; empty if any may make them."""
    return queue.partition(":")[0].partition("@")[2]


def is_process(name: str) -> bool:
    """Whether *name* may be that of a process, as `new_process` makes it."""
    return len(name) == PROCESS and set(name) <= set("0123456789abcdef")


def new_process() -> str:
    """A name for this process that no other has."""
    return secrets.token_hex(PROCESS // 2)
