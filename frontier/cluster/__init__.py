"""Nodes as one crawler: who is alive, and who works on which partition.

A crawl has 1,024 partitions by default. The ring says which node should have each; a
lease with a fencing token says which node has it. Whoever writes to a partition shows
its token, so a node that was frozen writes nothing after its lease has ended. Nothing
here knows what a partition contains. All calls are coroutines of the event loop.
"""
