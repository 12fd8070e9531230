"""Work that the reactor must not wait for: documents that may take forever to parse.

A page may be written to keep a parser busy for hours. A thread does not help: ``re``
and most parsers hold the interpreter's lock until they are done, so that the node
sends no heartbeat meanwhile. Here such work is done in *worker processes*: each does
one job at a time, has limits of CPU time and of memory, which the kernel enforces, and
is killed and replaced when it reaches one.

`frontier.workers.pool` is the node's side: it is used from the reactor's thread and
never blocks it. `frontier.workers.process` is what runs in the workers; its table
`JOBS` has the functions that they may run.
"""
