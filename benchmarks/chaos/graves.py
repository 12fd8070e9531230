"""How long it takes until what a killed node held is held again."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.chaos.durable import Lease


@dataclass(slots=True)
class _Grave:
    name: str
    since: float
    held: Sequence[Lease]


class Graves:
    """The killed nodes whose partitions nobody else holds yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._graves: list[_Grave] = []

    def add(self, name: str, since: float, held: Sequence[Lease]) -> None:
        """Node *name* was killed at *since*, when it had the leases *held*."""
        if held:
            self._graves.append(_Grave(name, since, held))

    def forget(self) -> None:
        """Wait for none of them any more."""
        self._graves.clear()

    def healed(self, leases: Sequence[Lease]) -> Iterator[tuple[str, float]]:
        """Whose partitions are all held under newer *leases*, after which time.

        Each is told once.
        """
        tokens = {lease.partition: lease.token for lease in leases}
        for grave in list(self._graves):
            if all(
                tokens.get(old.partition, old.token) != old.token for old in grave.held
            ):
                self._graves.remove(grave)
                yield grave.name, self._clock() - grave.since
