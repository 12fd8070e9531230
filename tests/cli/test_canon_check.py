"""``frontier canon check``: an index beside WARC files that say their rules."""

import gzip
import json

import pytest

from frontier.cdx.declared_rules import declared_in
from frontier.cli import main
from frontier.urls.canon.rulesets import named
from frontier.warc.cdxj_sidecar import Listing, beside_of
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.warc.samples import an_exchange

URLS = (
    "http://www.example.com/b",
    "http://example.com/a?&y=1",
    "http://example.com/z?x=1&",
    "http://example.com/c",
)
"""The second and third have another SURT once Heritrix's rules were applied."""


@pytest.fixture
def warc(tmp_path):
    """Write a WARC file and its CDXJ, as a crawl under *rules* does."""

    def warc(rules="heritrix", urls=URLS, crawl="crawl-1", keyed=None):
        listing = Listing(keyed)
        fields, text = {}, ""
        if rules:
            fields = {"canonicalization": named(rules).statement}
            text = named(rules).as_json()
        writer = WarcWriter(
            WarcConfig(tmp_path, crawl, "node-1", warcinfo=fields, rules=text),
            lambda: 1.8e9,
        )
        writer.on_closed.append(listing.write)
        for number, url in enumerate(urls):
            exchange = an_exchange(number, b"%d" % number, url=url)
            listing.note(exchange, writer.append(exchange, f"{number:064x}", None))
        writer.close()
        (path,) = tmp_path.glob(f"{crawl}-*.warc.gz")
        return path

    return warc


@pytest.fixture
def check(capsys, monkeypatch):
    """Run the command; return its exit code, its JSON and what it said beside."""

    def check(*words):
        monkeypatch.setattr(
            "sys.argv", ["frontier", "canon", "check", *map(str, words), "--json"]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code, json.loads(out) if out else None, err

    return check


def test_entries_whose_key_changes_are_listed_and_moved(check, warc, tmp_path):
    path = warc()
    index = beside_of(path)
    code, said, err = check(index, path)

    assert code == 7
    assert err == ""
    assert (said["rules"], said["entries"], said["changed"]) == ("heritrix", 4, 2)
    assert said["changes"] == [
        {
            "before": "com,example)/a?&y=1",
            "after": "com,example)/a?y=1",
            "url": URLS[1],
        },
        {
            "before": "com,example)/z?&x=1",
            "after": "com,example)/z?x=1",
            "url": URLS[2],
        },
    ]

    code, said, _ = check(index, path, "--rekey")
    made = index.with_name(f"{index.stem}.heritrix.cdxj")
    assert code == 0
    assert said["rekeyed"] == {"file": str(made), "lines": 5}
    meta, *lines = made.read_bytes().splitlines(keepends=True)
    assert sorted(lines) == lines
    facts = {line.partition(b" ")[2] for line in index.read_bytes().splitlines()}
    assert {line[:-1].partition(b" ")[2] for line in lines} == facts
    assert [line.split()[0] for line in lines] == [
        b"com,example)/a?y=1",
        b"com,example)/b",
        b"com,example)/c",
        b"com,example)/z?x=1",
    ]
    assert json.loads(meta.removeprefix(b"!meta 0 ")) == {
        "canonicalization": named("heritrix").statement
    }

    assert check(made, path)[:1] == (0,)
    code, said, err = check(made, path, "--rules", "pywb")
    assert (code, said["changed"]) == (7, 2)
    assert "the index is under heritrix" in err


def test_pywbs_keys_are_there_again_whatever_the_form_of_the_index(
    check, warc, tmp_path
):
    index = beside_of(warc())
    entries = index.read_bytes().splitlines(keepends=True)
    packed = tmp_path / "all.cdxj.gz"
    # As tools write them: in several members, here also in the wrong order.
    packed.write_bytes(b"".join(gzip.compress(line) for line in reversed(entries)))

    code, said, _ = check(packed, "--rules", "openwayback-key", "--rekey")
    assert (code, said["changed"]) == (0, 4)
    moved = tmp_path / "all.openwayback-key.cdxj"
    assert b"\nexample.com/b 2" in moved.read_bytes()
    back = tmp_path / "back.cdxj.gz"
    check(moved, "--rules", "pywb", "--rekey", "--out", back)
    assert gzip.decompress(back.read_bytes()) == index.read_bytes()
    assert not list(tmp_path.glob("*.open"))


def test_a_file_that_is_there_is_overwritten_only_when_told(check, warc, tmp_path):
    path = warc()
    out = tmp_path / "mine.cdxj"
    out.write_text("mine")
    words = (beside_of(path), path, "--rekey", "--out", out)

    code, said, err = check(*words)
    assert (code, said, out.read_text()) == (2, None, "mine")
    assert "--force" in err
    assert check(*words, "--force")[0] == 0
    assert out.read_bytes().count(b"\n") == 5


@pytest.mark.parametrize("rules", ["heritrix", "surt", "openwayback-key"])
def test_an_index_by_the_crawls_rules_is_right_as_it_is(check, warc, rules):
    path = warc(rules, keyed=named(rules))
    index = beside_of(path)
    written = index.read_bytes()

    code, said, err = check(index, path)
    assert (code, said["changed"], err) == (0, 0, "")
    assert written.startswith(b'!meta 0 {"canonicalization": "%s; ' % rules.encode())
    Listing(named(rules)).write(path)  # as when its node has died
    assert index.read_bytes() == written


def test_files_under_different_rules_are_each_taken_by_their_own(check, warc, tmp_path):
    one, two = warc(), warc("surt-ordinary", crawl="crawl-2")
    three = warc("", crawl="crawl-3")
    index = tmp_path / "all.cdxj"
    beside = (beside_of(path).read_bytes() for path in (one, two, three))
    index.write_bytes(b"".join(sorted(b"".join(beside).splitlines(True))))
    code, said, err = check(index, one, two, three)

    assert code == 7
    assert "under different rules: heritrix" in err
    assert "no rules: 1 of them" in err
    assert "4 entries lead to files whose rules are not known" in err
    assert (said["rules"], said["entries"], said["unknown"]) == (None, 12, 4)
    after = [change["after"] for change in said["changes"]]
    assert sorted(after) == [
        "com,example)/a?y=1",
        "com,example)/z?x=1",
        "com,example)/z?x=1&",
        "com,example,www)/b",
    ]
    code, _, err = check(index, one, two, three, "--rekey")
    assert code == 2
    assert "--rules" in err


def test_rules_of_a_file_come_from_the_archive(check, warc, tmp_path):
    rules = tmp_path / "ours.toml"
    rules.write_text('name = "ours"\nbase = "surt"\n[[rule]]\nstrip = "[?].*"\n')
    path = warc(str(rules))
    rules.unlink()
    code, said, _ = check(beside_of(path), path)

    assert (code, said["rules"], said["changed"]) == (7, "ours", 2)


def test_a_cdx_of_eleven_fields_is_rekeyed_too(check, tmp_path):
    index = tmp_path / "old.cdx"
    rest = (
        "20200101000000 http://www.a.example/B?y&x text/html 200 SHA - - 9 8 x.warc.gz"
    )
    index.write_text(f" CDX N b a m s k r M S V g\na.example/b?y&x {rest}\n")
    code, said, _ = check(index, "--rules", "surt", "--rekey")

    assert (code, said["changed"]) == (0, 1)
    assert (tmp_path / "old.surt.cdx").read_text() == (
        f" CDX N b a m s k r M S V g\nexample,a)/b?x&y {rest}\n"
    )


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        (lambda i, w: w.write_bytes(w.read_bytes()[:-1]), 0, ""),  # behind the head
        (lambda i, w: w.write_bytes(w.read_bytes()[:99]), 2, "left out"),
        (lambda i, w: w.write_bytes(b"<html>"), 2, "no WARC file"),
        (lambda i, w: w.unlink(), 2, "No such file"),
        (lambda i, w: i.unlink(), 2, "No such file"),
        (lambda i, w: i.write_bytes(b"nonsense\n" + i.read_bytes()), 6, "1 lines are"),
        (lambda i, w: i.write_bytes(b'a 20200101000000 {"url": 5}\n'), 6, "1 lines"),
        (lambda i, w: i.write_bytes(b"a 20200101000000 [1]\n" + b"[" * 9999), 6, ""),
        (lambda i, w: i.write_bytes(gzip.compress(i.read_bytes())[:-9]), 6, "index"),
    ],
)
def test_what_is_broken_is_named_and_the_rest_goes_on(
    check, warc, tmp_path, change, code, reason
):
    path = warc("surt")
    index = tmp_path / "index.cdxj"
    index.write_bytes(beside_of(path).read_bytes())
    change(index, path)
    found, _, err = check(index, path)

    assert found == code, err
    assert reason in err


def test_what_a_file_says_is_not_believed_without_its_digest(warc, tmp_path):
    path = warc()
    members = path.read_bytes()
    data = gzip.decompress(members).replace(b"strip-wwwn", b"strip-www ")
    path.write_bytes(gzip.compress(data[: data.index(b"WARC/1.1\r\nWARC-Type: req")]))
    plain = tmp_path / "plain.warc"
    plain.write_bytes(gzip.decompress(members))

    with plain.open("rb") as stream:
        assert declared_in("x", stream).text == named("heritrix").as_json()
