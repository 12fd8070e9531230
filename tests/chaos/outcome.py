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
    recovery: float = 0.0
    """Longest time from a kill until the last of its partitions was held again."""
    ending: float = 0.0
    """Time from the end of the last request until the crawl was finished."""
    aimed: int = 0
    """How often a file was cut just before a push."""
    expected_losses: int = 0
    """Pages lost where nothing promises that none is."""
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
            f"recovery {self.recovery:.1f} s, end {self.ending:.1f} s after the last"
        )
        if self.expected_losses:
            summary += f"; {self.expected_losses} pages lost, as was to be expected"
        lines = [summary + (f"; starved {self.starved} times" if self.starved else "")]
        if self.faults:
            lines += [f"  plan: {line}" for line in self.plan]
            lines += [f"  {line}" for line in self.happened]
            lines += [f"  FAULT {wrong}: {what}" for wrong, what in self.faults]
            lines.append(f"  logs: {self.directory}")
            aimed = " --aimed" if self.plan[0].startswith("aimed") else ""
            lines.append(f"  replay: python -m tests.chaos{aimed} --seed {self.seed}")
        return lines

    def as_dict(self):
        """For JSON."""
        return asdict(self)
