"""The watchdog: a small process that keeps the leases of a busy node.

A callback that computes for a minute blocks the event loop, and ``re`` holds the
GIL, so no thread of the node could renew its leases either. Each node therefore
starts a second process. While the node's loop turns, it only watches. When the loop
stands still, it renews the leases and sends heartbeats in the node's place, for at most
``FRONTIER_BUSY_MAX`` seconds; then it gives up the page whose callback is running, and
lets the leases end. It does nothing for a node that is stopped or dead.

`frontier.watchdog.memory` is the memory that both share, `frontier.watchdog.child` the
node's end, and `frontier.watchdog.process` what the second process does. Decision 0039
says why this is safe, and 0040 when a page counts as delivered.
"""
