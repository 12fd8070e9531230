"""What is there more than once, as `frontier warc stats` tells it."""

import json

import pytest
from click.testing import CliRunner

from frontier.cli import app
from frontier.cli.output import ExitCode
from tests.postcrawl.conftest import OTHER, PAGE


@pytest.fixture
def manifests(before, new_warc, tmp_path):
    third = new_warc("three.warc.gz")
    third.response("http://user@B.example:8080/x", 20, b"x" * 100_000)
    third.response("http://c.example", 21, b"")
    third.response("http://c.example/again", 22, b"")  # nothing is no copy of nothing
    third.close()
    words = ["manifest", str(before), "-o", str(tmp_path / "m"), "--workers=1"]
    assert CliRunner().invoke(app, ["warc", *words]).exit_code == ExitCode.OK
    return tmp_path / "m"


def stats(directory, *words):
    return CliRunner().invoke(app, ["warc", "stats", str(directory), *words])


def test_copies_are_counted_where_they_are(manifests):
    found = json.loads(stats(manifests, "--json").stdout)

    copied = 2 * len(PAGE) + len(OTHER)
    size = 3 * len(PAGE) + 2 * len(OTHER) + len(PAGE) + 1 + 100_000
    total = {"captures": 9, "copies": 3, "payload_bytes": size, "copied_bytes": copied}
    assert (found["files"], found["total"]) == (3, total)
    by = {
        kind: {name: (share["captures"], share["copies"]) for name, share in of.items()}
        for kind, of in found["by"].items()
    }
    assert by == {
        "mime": {"text/html": (9, 3)},
        "host": {
            "b.example": (3, 2),
            "a.example": (3, 1),
            "b.example:8080": (1, 0),
            "c.example": (2, 0),
        },
        "year": {"2020": (9, 3)},
        "size": {"1 to 10 kB": (6, 3), "100 kB to 1 MB": (1, 0), "< 1 kB": (2, 0)},
    }
    assert next(iter(found["by"]["host"])) == "b.example"  # most bytes in copies first
