"""The store: the only package that speaks to Redis or Valkey.

`client` sends `calls`, commands and scripts, to one server, to the primary that
Sentinel names or to a cluster, `keys` has the name of every key, `lua/` a script for
each operation, and `embedded` starts a server where none is configured. `outage_retry`
retries calls while the store is unreachable.

An error of the client library leaves here as one of `frontier.errors`. A script
touches the keys of one hash tag and takes the time from the server. `Store` is for
coroutines of the event loop, `BlockingStore` for commands and threads.
"""
