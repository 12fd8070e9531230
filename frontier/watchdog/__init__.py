"""The watchdog: a small process that keeps the place of a busy node in its crawl.

A callback that computes for a minute blocks the event loop, and ``re`` holds the
GIL, so no thread of the node could send heartbeats either. Each node therefore
starts a second process. While the node's loop turns, it only watches. When the loop
stands still, it sends heartbeats in the node's place, for at most
``FRONTIER_BUSY_MAX`` seconds; then it gives up the page whose callback is running, and
sends no more. For a node that is stopped or dead it sends none.

`frontier.watchdog.memory` is the memory that both share, `frontier.watchdog.child` the
node's end, and `frontier.watchdog.process` what the second process does.
docs/decisions/leases.md says why this is safe, and delivery.md when a page counts as
delivered.
"""
