"""A WACZ carries the rules its WARC files were made under."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from frontier.cdx.declared_rules import declared_in
from frontier.collection.rekey import Rekeying, rules_of_files
from frontier.urls.canon.rulesets import named
from frontier.wacz.check import check
from frontier.wacz.create import create
from frontier.wacz.layout import CANONICALIZATION
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.warc.samples import an_exchange

SCRIPTS = Path(sys.executable).parent
URLS = ("http://www.example.com/a?&x=1", "http://example.com/b")


@pytest.fixture
def wacz(tmp_path):
    warcs = []
    for rules in ("heritrix", "surt", ""):
        fields = {"canonicalization": named(rules).statement} if rules else {}
        text = named(rules).as_json() if rules else ""
        crawl = f"crawl-{rules or 'foreign'}"
        writer = WarcWriter(
            WarcConfig(tmp_path, crawl, "node-1", warcinfo=fields, rules=text),
            lambda: 1.8e9,
        )
        for number, url in enumerate(URLS):
            body = f"{rules} {number}".encode()
            writer.append(an_exchange(number, body, url=url), f"{number:064x}", None)
        writer.close()
        warcs += tmp_path.glob(f"{crawl}-*.warc.gz")
    out = tmp_path / "all.wacz"
    create(out, warcs)
    return out


def test_others_pass_over_the_rules_and_we_read_them(wacz):
    judge = subprocess.run(
        [SCRIPTS / "wacz", "validate", "-f", wacz],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judge.returncode == 0, judge.stdout
    assert check(wacz) == []
    with zipfile.ZipFile(wacz) as archive:
        said = json.loads(archive.read(CANONICALIZATION))["canonicalization"]
    assert [(one["name"], one["sha256"]) for one in said] == [
        (name, named(name).digest) for name in ("heritrix", "surt")
    ]
    assert said[0]["rules"] == json.loads(named("heritrix").as_json())
    assert [len(one["files"]) for one in said] == [1, 1]

    found = rules_of_files([wacz], pytest.fail)
    assert [one.name for one in found] == ["heritrix", "surt", ""]
    comparison = Rekeying(wacz, named("heritrix"))
    try:
        changes = {(change.before, change.after) for change in comparison.changes()}
    finally:
        comparison.close()
    assert changes == {("com,example)/a?&x=1", "com,example)/a?x=1")}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda said: said[0]["rules"].update(steps=[]), "have another hash"),
        (lambda said: said[0].update(files=["no.warc.gz"]), "is not there"),
        (lambda said: said[1].update(files=said[0]["files"]), "says heritrix"),
        (lambda said: said.append(5), "not a list of rules"),
    ],
)
def test_rules_that_lie_are_told(wacz, tmp_path, change, complaint):
    changed = tmp_path / "changed.wacz"
    with zipfile.ZipFile(wacz) as archive, zipfile.ZipFile(changed, "w") as to:
        for info in archive.infolist():
            data = archive.read(info)
            if info.filename == CANONICALIZATION:
                given = json.loads(data)
                change(given["canonicalization"])
                data = json.dumps(given).encode()
            to.writestr(info, data)

    said = [text for text in check(changed) if text.startswith(f"{CANONICALIZATION}:")]
    assert any(complaint in text for text in said), said


def test_a_foreign_record_that_only_looks_like_rules_is_not_taken(tmp_path):
    def member(kind, block):
        head = f"WARC/1.1\r\nWARC-Type: {kind}\r\nContent-Length: {len(block)}\r\n\r\n"
        return head.encode() + block.encode() + b"\r\n\r\n"

    rules = named("heritrix")
    path = tmp_path / "plain.warc"
    info = f"canonicalization: {rules.statement}\r\n"
    lie = rules.as_json().replace("strip-wwwn", "strip-www")
    for text, found in ((lie, ""), (rules.as_json(), rules.as_json())):
        path.write_bytes(member("warcinfo", info) + member("metadata", text))
        with path.open("rb") as stream:
            assert declared_in("x", stream).text == found
