import io
import json

import pytest

from frontier.errors import ConfigurationError
from frontier.item_files import Cut, join

FIRST, SECOND = "ab" * 16 + "-1000", "ab" * 16 + "-2000"
OTHER, THIRD = "cd" * 16 + "-1500", "ef" * 16 + "-1700"


def joined(tmp_path, files, field="from"):
    paths = []
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        paths.append(tmp_path / name)
    output = io.BytesIO()
    return join(paths, field, output), output.getvalue().decode()


def test_items_of_the_last_delivery_of_a_page_are_kept(tmp_path):
    lines = {
        "a.jsonl": [
            {"n": 1, "from": FIRST},
            {"n": 2, "from": OTHER},
            {"n": 3, "é": "\ud800"},
        ],
        "b.jsonl": [{"n": 1, "from": SECOND}, {"n": 4, "from": SECOND}],
    }
    texts = {k: "".join(f"{json.dumps(i)}\n" for i in v) for k, v in lines.items()}
    done, text = joined(tmp_path, texts)

    found = [json.loads(line) for line in text.splitlines()]
    assert [item["n"] for item in found] == [2, 3, 1, 4]
    assert (done.items, done.doubles, done.without_origin) == (4, 1, 1)


def test_an_item_after_a_truncated_one_is_kept(tmp_path):
    text = '{"n": 1, "a": {"b": "ca{"n": 2, "a": {"b": 3}}\n{"n": 4'
    done, text = joined(tmp_path, {"a.jsonl": text})

    assert [json.loads(line) for line in text.splitlines()] == [{"n": 2, "a": {"b": 3}}]
    assert done.cut == [Cut(tmp_path / "a.jsonl", 1), Cut(tmp_path / "a.jsonl", 2)]


def test_csv_files_are_joined_by_the_names_of_their_columns(tmp_path):
    first = f'n,text,from\r\n1,"two\r\nlines",{FIRST}\r\n2,from,{OTHER}\r\n'
    second = f"from,n\r\n{SECOND},1\r\nfrom,n\r\nn,from\r\n6,{THIRD}\r\n7,{THIRD}"
    done, text = joined(tmp_path, {"a.csv": first, "b.csv": second})

    rows = f"2,from,{OTHER}\r\n1,,{SECOND}\r\n6,,{THIRD}\r\n"
    assert text == f"n,text,from\r\n{rows}"
    assert (done.doubles, done.without_origin) == (1, 0)
    assert done.cut == [Cut(tmp_path / "b.csv", 6)]


@pytest.mark.parametrize("names", [["a.json"], ["a.jsonl", "b.csv"]])
def test_item_files_that_cannot_be_joined_are_refused(tmp_path, names):
    with pytest.raises(ConfigurationError, match="can"):
        joined(tmp_path, dict.fromkeys(names, ""))
