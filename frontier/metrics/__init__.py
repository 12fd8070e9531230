"""Metrics: the figures of nodes and of whole crawls, as Prometheus reads them.

A metric has one name, one unit and labels with a bounded number of values, and
docs/figures.md lists it. Nothing here changes a crawl, and no scrape keeps a node
waiting.

* `exposition` says what a metric is, and writes metrics in Prometheus' formats.
* `node` has the metrics of one node, `crawl` those of a crawl as a whole.
* `exporter` serves a node's metrics at a port of its own.
* `targets` says where the nodes of a crawl serve theirs.

Callers: a session makes the exporter, which answers in threads and reads what the node
has counted in the reactor's thread, between two of its steps. The status page serves
`crawl` and `targets` in its event loop, from what its thread has read of the store.
"""
