"""The linter of our prose finds what it is for, and nothing in names or code."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "words.py"

spec = importlib.util.spec_from_file_location("words", SCRIPT)
words = importlib.util.module_from_spec(spec)
spec.loader.exec_module(words)
RULES = words.rules(words.LIST.read_text("utf-8"))


def found(text):
    return list(words.findings(text, RULES))


@pytest.mark.parametrize(
    "sentence",
    [
        "While the store is away, nodes wait.",
        "Each costs a way to the store.",
        "They are reckoned from 53 bits.",
        "It takes less processor time.",
        "The stamp of an item.",
        "The index was told of them.",
        "Each figure is a quotient within one run.",
        "It is innocent.",
        "a hint that is none",
        "The exit of a node, clean or not, deletes nothing.",
        "A node that was frozen sends nothing that another one has.",
        "How far it is is stored with its lock.",
        "what merely waited in the inbox",
        "The keeper renews it.",
        "after a setback",
        "as the\n    shelf  of a crawl",
        "It deletes nothing that is shared.",
        "The inbox of a killed node is innocent.",
        "One primary of a cluster away.",
        "processor ms per page",
        "It has two processors.",
        "The report counts them anew.",
        "Most letters are read back.",
        "a letter is put back",
        "the crawl's shape",
        "a node with another shape",
        "The parts of a process know each other.",
        "Its place of a request is a queue.",
        "The URL's own mark, and its mark in the set.",
        "The lease gate looks at it.",
        "The cascade of tiers.",
        "a host's allowance",
        "the tally of a node",
        "A node's figures come with it.",
        "The advice to name a server.",
        "the connection of one process",
        "See `Parts` and `frontier.node.setback`.",
        "It is in `frontier/node/keeper.py`.",
        "Set `FRONTIER_WARC_FIELD`.",
        "The key `polite` of a partition.",
        "It calls `settle()`.",
    ],
)
def test_the_words_and_sentences_of_the_review_are_found(sentence):
    assert found(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "The WARC-Date is a timestamp.",
        "A file has a quotient filter.",
        "Its name is `shelf`, as in ``cascade``.",
        "frontier.node.setback was its path.",
        "The callback is none of these.",
        "Requests that are given up are dead\n    letters that a command lists.",
        "capital letters are names; hop letters are Heritrix's",
        "Scrapy's input processor is not ours.",
        "`allowances` are a key of a crawl's limits.",
        "Make room; a part of a path; the last letter of a name.",
        "`frontier/status/captures.py` has `shape` and `starts`.",
    ],
)
def test_other_words_are_left_alone(sentence):
    assert found(sentence) == []


def test_a_finding_has_its_line_and_what_to_write():
    assert found("One.\nThe store is\naway.") == [
        "2: 'store is away': write the store is unreachable"
    ]


def test_of_sources_only_texts_and_comments_are_read():
    code = 'keeper = 1\n\n\ndef shelf():\n    """It is a setback."""  # innocent\n'

    assert [line.partition(":")[0] for line in found(words.of_python(code))] == [
        "5",
        "5",
    ]


def test_a_document_with_such_a_word_fails_and_its_code_does_not(tmp_path):
    page = ROOT / "docs" / "where.md"
    done = subprocess.run([sys.executable, SCRIPT, page], capture_output=True)
    assert done.returncode == 0

    (tmp_path / "page.md").write_text("```\nthe keeper\n```\n")
    assert found(words.prose(tmp_path / "page.md")) == []
    (tmp_path / "page.md").write_text("the keeper\n")
    assert found(words.prose(tmp_path / "page.md"))
