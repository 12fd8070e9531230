"""What came of a trial, as one line of JSON or as lines for people."""

from dataclasses import asdict, dataclass, field


@dataclass(slots=True)
class Outcome:
    """What came of a trial."""

    seed: int
    plan: object
    store: str = "single"
    events: object = field(default_factory=dict)
    """How often each kind of event happened."""
    slots_moved: int = 0
    starved: int = 0
    """How often the machine had no time for a node or a server, in times a lease."""
    happened: object = field(default_factory=list)
    faults: object = field(default_factory=list)
    seconds: float = 0.0
    pages: int = 0
    kills: int = 0
    refetched: int = 0
    """Fetches beyond the first of each page; all of them, excused or not."""
    extra: int = 0
    ending: float = 0.0
    """Time from the end of the last request until the crawl was finished."""
    directory: str = ""
    """Logs of a trial that failed."""

    def count(self, *wrongs):
        """How many faults there are of these kinds."""
        return sum(1 for wrong, _ in self.faults if wrong in wrongs)

    def lines(self):
        """All of it, for people."""
        verdict = f"{len(self.faults)} faults" if self.faults else "no fault"
        summary = (
            f"seed {self.seed}, {self.store}: {verdict} in {self.seconds:.1f} s; "
            f"{self.pages} pages, {self.refetched} fetched again, "
            f"end {self.ending:.1f} s after the last"
        )
        lines = [summary + (f"; starved {self.starved} times" if self.starved else "")]
        if self.faults:
            lines += [f"  plan: {line}" for line in self.plan]
            lines += [f"  {line}" for line in self.happened]
            lines += [f"  FAULT {wrong}: {what}" for wrong, what in self.faults]
            lines.append(f"  logs: {self.directory}")
            lines.append(f"  replay: python -m tests.chaos --seed {self.seed}")
        return lines

    def as_dict(self):
        """For JSON."""
        return asdict(self)
