"""Canonicalization: which URLs count as one in a crawl, an index or an archive.

`rulesets` has the named sets, made of steps: ports of Heritrix's (`heritrix`,
`usable_uri`), OpenWayback's (`openwayback`) and webarchive-commons' rules (`surt`).
`hosts` has host names as their Java libraries do. `rule_files` reads a project's own
from TOML, and `regex_rules` refuses expressions that may take exponential time.

No URL takes exponential time. Only rules in a file depend on the date; nothing here
reads the network or a setting. A URL that the rules refuse raises `InvalidURL`, with
the reason.
"""
