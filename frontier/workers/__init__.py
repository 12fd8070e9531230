"""What the reactor must not wait for: documents that may be made to take for ever.

A page may be made to keep a parser busy for hours. A thread does not help: ``re``
and most parsers keep the interpreter's lock until they are done, so that the node
sends no heartbeat meanwhile. Here such work is done in *worker processes*: each does
one job at a time, has a limit of CPU time and of memory, which the kernel
keeps, and is killed and replaced when it reaches one.

`frontier.workers.pool` is the node's side: it is used from the reactor's thread and
never blocks it. `frontier.workers.process` is what runs in the workers; its table
`JOBS` says which functions they may be asked for.
"""
