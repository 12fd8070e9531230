"""Units of systemd: its own judge reads them, and each command in them is known."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from tests.harness.commands import output_of
from tests.prometheus import program

UNITS = ROOT / "deploy" / "systemd"
BIN = "/srv/frontier/venv/bin"
SERVICES = sorted(UNITS.glob("*.service"))


def text_of(unit):
    return unit.read_text("utf-8").replace(BIN, str(Path(sys.executable).parent))


def test_systemd_finds_no_fault_in_the_units(tmp_path):
    analyze = program("systemd-analyze")
    for unit in [*SERVICES, *UNITS.glob("*.timer")]:
        (tmp_path / unit.name).write_text(text_of(unit))
    done = subprocess.run(
        [analyze, "verify", *map(str, sorted(tmp_path.iterdir()))],
        capture_output=True,
        text=True,
    )

    ours = [line for line in done.stderr.splitlines() if "frontier-" in line]
    assert (done.returncode, ours) == (0, []), done.stderr
    assert len(SERVICES) == 3


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_command_of_a_unit_has_only_options_that_there_are(unit):
    """With ``--help``, which ends it, but not before its options were read."""
    (line,) = re.findall(r"^ExecStart=(.+)$", text_of(unit), re.MULTILINE)

    output_of([*line.split(), "--help"])
