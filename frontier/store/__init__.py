"""The store: the only package that speaks to Redis or Valkey.

`client` sends commands and scripts to one server, to what Sentinel names or to a
cluster, `keys` has the name of every key, `lua/` a script for each operation.
`outage_retry` says what is tried again, and for how long, while it is unreachable.
"""
