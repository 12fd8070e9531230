"""What `rows.toml` names is there: pytest would run nothing at all without it."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent


def test_each_row_names_tests_that_there_are():
    rows = tomllib.loads((HERE / "rows.toml").read_text("utf-8"))["row"]
    missing = []
    for named in {test for row in rows for test in row["tests"]}:
        path, _, name = named.partition("::")
        file = HERE.parents[1] / path
        function = name.partition("[")[0].rpartition("::")[2]
        if not file.exists() or (
            function and f"def {function}(" not in file.read_text("utf-8")
        ):
            missing.append(named)

    assert missing == []
