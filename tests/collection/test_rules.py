"""Imports tell which sources were made under other rules than crawls here have."""

import json
import zipfile

import pytest

from frontier.store.keys import CrawlKeys
from frontier.urls.canon.rulesets import label_of, named
from frontier.wacz.layout import CANONICALIZATION, canonicalization_members
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.collection.samples import line, make_wacz
from tests.warc.samples import an_exchange


@pytest.fixture
def sources(tmp_path):
    """A WARC file and a WACZ of it for each set, the last of a tool without rules."""
    found = []
    for rules in ("heritrix", "scrapy", ""):
        fields = {"canonicalization": named(rules).statement} if rules else {}
        text = named(rules).as_json() if rules else ""
        name = rules or "foreign"
        writer = WarcWriter(
            WarcConfig(tmp_path, name, "node-1", warcinfo=fields, rules=text),
            lambda: 1.8e9,
        )
        writer.append(an_exchange(0, name.encode()), f"{len(found):064x}", None)
        writer.close()
        (warc,) = tmp_path.glob(f"{name}-*.warc.gz")
        wacz = make_wacz(tmp_path / f"{name}.wacz", [line(name)])
        with zipfile.ZipFile(wacz, "a") as archive:
            for member in canonicalization_members([warc]):
                archive.writestr(*member)
        found += [warc, wacz]
    return found


def test_sources_under_other_rules_than_the_crawls_are_told_and_imported(
    index, sources
):
    crawl = CrawlKeys("frontier", index.name).meta()
    index("SADD", index.keys.committed(), index.name)
    shape = json.dumps({"canonicalization": label_of("scrapy")})
    index("HSET", crawl, "shape", shape)
    code, out, err = index.run("import", *sources, "--crawl", "others", "--json")

    said = json.loads(out)
    assert (code, said["sources"]) == (0, 6)
    assert said["under_other_rules"] == {label_of("heritrix"): 2}
    warnings = [text for text in err.splitlines() if text.startswith("warning")]
    assert len(warnings) == 1
    assert (
        f"the rules {label_of('heritrix')}, crawls of this collection have scrapy"
        in (warnings[0])
    )


def test_the_rules_can_be_named_and_a_broken_member_is_passed_over(index, sources):
    with zipfile.ZipFile(sources[-1], "a") as archive:
        archive.writestr(CANONICALIZATION, '{"canonicalization": [5]}')
    words = ("import", *sources, "--rules", "heritrix", "--json")
    code, out, err = index.run(*words)

    assert (code, json.loads(out)["under_other_rules"]) == (0, {"w3lib": 2})
    assert "under the rules scrapy" in err
