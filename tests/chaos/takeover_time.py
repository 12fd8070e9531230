"""How long it takes until what a killed node held is held again."""

import time
from dataclasses import dataclass


@dataclass(slots=True)
class _Takeover:
    name: str
    since: float
    held: object


class Takeovers:
    """The killed nodes whose partitions nobody else holds yet."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self._takeovers = []

    def add(self, name, since, held):
        """Node *name* was killed at *since*, when it had the leases *held*."""
        if held:
            self._takeovers.append(_Takeover(name, since, held))

    def forget(self):
        """Wait for none of them any more."""
        self._takeovers.clear()

    def healed(self, leases):
        """Whose partitions are all held under newer *leases*, after which time.

        Each is told once.
        """
        tokens = {lease.partition: lease.token for lease in leases}
        for takeover in list(self._takeovers):
            held = takeover.held
            if all(tokens.get(old.partition, old.token) != old.token for old in held):
                self._takeovers.remove(takeover)
                yield takeover.name, self._clock() - takeover.since
