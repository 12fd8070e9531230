"""What a crawl, its nodes and its collections look like from outside.

Read from the store for reports and pages; nothing here changes anything. What nodes
wrote is checked before it is shown (`validate`).
"""
