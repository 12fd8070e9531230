"""Every vector of the originals, but those whose hosts their maker doubted.

A line of ``vectors.jsonl.gz`` is ``[rule, URL, form]``, and the rule's arguments
if it has any; the form is null where the original refuses the URL. They are
those of shared/vectors: of Heritrix, OpenWayback and webarchive-commons, from
their own tests and from their unmodified classes.
"""

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from frontier.errors import InvalidURL
from tests.urls.canon.originals import apply

FILE = Path(__file__).with_name("vectors.jsonl.gz")
BY_RULE = defaultdict(list)
for line in gzip.decompress(FILE.read_bytes()).splitlines():
    rule, *rest = json.loads(line)
    BY_RULE[rule].append(rest)


def form_of(url, rule, config=None):
    try:
        return apply(url, rules=rule, config=config)
    except InvalidURL:
        return None


@pytest.mark.parametrize("rule", sorted(BY_RULE))
def test_the_form_is_the_originals(rule):
    wrong = []
    for url, form, *config in BY_RULE[rule]:
        found = form_of(url, rule, *config)
        if found != form:
            wrong.append((url, form, found))

    assert wrong == []


def test_the_vectors_are_all_there():
    assert sum(map(len, BY_RULE.values())) > 14_000
