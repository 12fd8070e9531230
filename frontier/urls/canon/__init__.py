"""Canonicalization: which URLs count as one in a crawl, an index or an archive.

`rulesets` has the named sets, made of steps: ports of Heritrix's (`heritrix`,
`usable_uri`), OpenWayback's (`openwayback`) and webarchive-commons' rules (`surt`).
`hosts` treats host names as their Java libraries do. `rule_files` reads a project's own
rules from TOML.

No URL takes exponential time; nothing here reads a clock, the network or a setting. A
URL that the rules refuse raises `InvalidURL`, with the reason.
"""
