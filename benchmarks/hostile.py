"""``hostile``: the corpus of hostile inputs, which `tests.hostile` runs in the suite.

Not a measure of speed: it counts what went wrong, each input in a process of its own
with limits on its time and memory. Without ``--quick`` each input runs five times,
which shows those that fail now and then.
"""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.harness import Report, environment, rounded

if TYPE_CHECKING:
    from benchmarks.harness import Options
    from benchmarks.server import Server

ROUNDS = 5
SHOWN = 10
"""Inputs that failed, in the notes."""


def run(server: Server, options: Options) -> Report:
    """Run the corpus, and count verdicts."""
    corpus, runner = map(
        import_module, ("tests.hostile.corpus", "tests.hostile.runner")
    )
    inputs: dict[str, Any] = corpus.load()
    names = list(inputs)
    count = 1 if options.quick else ROUNDS
    came: list[dict[str, Any]] = runner.run_all(names * count, server.url)
    verdicts = Counter(each["verdict"] for each in came)
    figures = {
        "inputs": sum(each.count for each in inputs.values()),
        "hung": verdicts["hung"],
        "crashed": verdicts["crashed"],
        "escaped": verdicts["escaped"],
        "wrong": verdicts["wrong"],
        "over_memory": verdicts["large"],
        "peak_mb": rounded(max(each["peak_mb"] for each in came)),
        "cpu_s": rounded(sum(each["cpu"] for each in came) / count),
    }
    failed = [each for each in came if each["verdict"] != "ok"]
    notes = [
        f"{each['name']}: {each['verdict']}: {each['told'].strip()[-200:]}"
        for each in failed[:SHOWN]
    ]
    results = {"corpus": {name: float(value) for name, value in figures.items()}}
    return Report("hostile", environment(server.info()), results, figures, notes)
