"""Ask pip-audit about what CI installs; 1 if a version has a known vulnerability.

    python .ci/audit.py FILE...

Where the advisories cannot be had, one line says so, and that is no error: CI also
runs where there is nothing but an index.
"""

import json
import subprocess
import sys

WAIT = 300.0
"""Seconds for an answer about one file."""
COMMAND = ["--progress-spinner", "off", "--format", "json", "--disable-pip"]


def unknown(file: str, why: str) -> None:
    """Say that nothing is known about *file*."""
    print(f"{file}: not audited: {why}")


def audit(file: str) -> bool:
    """Whether nothing is known against what *file* lists; print what is."""
    pip_audit = [sys.executable, "-m", "pip_audit", *COMMAND, "--no-deps", "-r", file]
    try:
        done = subprocess.run(
            pip_audit, capture_output=True, text=True, timeout=WAIT, check=False
        )
        entries = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        unknown(file, f"no answer in {WAIT:g} s")
        return True
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        unknown(file, last[0][:200])
        return True
    skipped = [entry for entry in entries if "skip_reason" in entry]
    if len(skipped) == len(entries):
        unknown(file, f"no advisories are here for any of {len(entries)} packages")
        return True
    bad = [entry for entry in entries if entry.get("vulns")]
    print(
        f"{file}: {len(entries)} packages, {len(skipped)} of which could not be "
        f"looked up, {len(bad)} with known vulnerabilities"
    )
    for entry in bad:
        ids = " ".join(each["id"] for each in entry["vulns"])
        print(f"  {entry['name']} {entry['version']}: {ids}")
    return not bad


if __name__ == "__main__":
    FOUND = [audit(file) for file in sys.argv[1:]]  # each of them, whatever comes first
    sys.exit(not all(FOUND))
