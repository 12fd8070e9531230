"""What a crawl, its nodes and its collections look like from outside.

`snapshot` reads a crawl from the store and adds up what its nodes report, `views` has
the values that it returns, `seen_tiers` says how full the seen test is. Nothing here
changes anything.

What nodes wrote is checked before it is shown (`validate`): another program may have
written it. Callers: commands of `cli`, which block.
"""
