"""Nodes as one crawler: who is alive, and who works on which partition.

A crawl has 1,024 partitions by default. The ring says which node should have each; a
lease with a fencing token says which node has it. Whoever takes URLs from a partition,
or acks them, shows its token, so a node that was frozen changes nothing after its
lease has ended. Clocks of two machines are never compared.

Nothing here knows what a partition contains. `node.heartbeat` calls these coroutines on
the event loop, each at most one round trip. `ring` is arithmetic, without I/O.
"""
