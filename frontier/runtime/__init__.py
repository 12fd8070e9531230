"""The life of one node: see `frontier.runtime.node`."""
