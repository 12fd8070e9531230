"""The watchdog: a small process that keeps the leases of a node that is busy.

A callback that computes for a minute blocks the event loop, and ``re`` holds the
GIL, so no thread of the node could renew its leases either. Each node therefore
starts a second process. While the loop of the node turns, it only watches. When
the loop stands still, it renews the leases and beats in its place, for at most
``FRONTIER_BUSY_MAX`` seconds; then it gives up the page whose callback runs, and
lets the leases end. It does nothing for a node that is stopped or dead.

`frontier.watchdog.memory` is what both share, `frontier.watchdog.child` is the
node's end of it, `frontier.watchdog.process` what the second process does. Decision
0039 says why it is safe, and 0040 how a page comes to count as delivered.
"""
