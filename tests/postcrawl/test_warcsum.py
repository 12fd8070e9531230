"""Stages 2 and 3 of WARCsum, and its parts, byte for byte."""

import hashlib

import pytest

from tests.postcrawl.conftest import OTHER, PAGE, date
from tests.postcrawl.test_dedupe import run
from tests.postcrawl.test_manifest import manifest, rows


def md5(body):
    return f"md5:{hashlib.md5(body).hexdigest()}"


def placed(directory):
    """File, offset and length of each capture, by its URL and date."""
    return {
        (row["url"], row["date"]): "{} {} {}".format(
            row["file"].rpartition("/")[2], row["record_offset"], row["record_length"]
        )
        for row in rows(directory)
    }


def test_stages_2_and_3_are_as_warcsum_writes_them(before, tmp_path):
    out = tmp_path / "m"
    manifest(before, "-o", out, "--digest", "md5")
    run("plan", out, "--format", "warcsum")

    at = placed(out)
    site, other = "http://a.example/", "http://a.example/other"
    captures = [
        (site, 1, PAGE, "1 1 - -"),
        (site, 10, PAGE, f"1 2 {site} {date(1)}"),
        ("http://b.example/", 11, PAGE, f"1 3 {site} {date(1)}"),
        (other, 2, OTHER, "1 1 - -"),
        ("http://b.example/other", 13, OTHER, f"1 2 {other} {date(2)}"),
        ("http://b.example/new", 12, PAGE + b"!", "1 1 - -"),
    ]
    captures.sort(key=lambda one: (md5(one[2]), one[3]))
    plan = [
        f"{at[url, date(second)]} {url} {date(second)} {md5(body)} {more}\n"
        for url, second, body, more in captures
    ]
    assert (out / "plan.warcsum").read_text() == "".join(plan)
    compared = [" ".join(text.split(" ")[:7]) + "\n" for text in plan]
    assert (out / "compared.warcsum").read_text() == "".join(compared)

    run("plan", out)  # another plan: the texts would be of the old one
    assert not (out / "plan.warcsum").exists()


@pytest.mark.parametrize("count", [1, 2, 100])
def test_no_digest_is_in_two_parts(new_warc, tmp_path, count):
    warc = new_warc("one.warc.gz")
    for number in range(40):
        warc.response(f"http://a.example/{number}", number, b"%d" % (number // 4))
    warc.close()
    out = tmp_path / "m"
    words = [tmp_path / "before", "-o", out, "--format", "warcsum"]

    manifest(*words, "--split", count)

    whole = (out / "manifest.warcsum").read_text().splitlines()
    names = [
        f"manifest.warcsum.{n + 1}" for n in range(len([*out.glob("*.warcsum.*")]))
    ]
    parts = [(out / name).read_text().splitlines() for name in names]
    assert len(parts) == min(count, 10)
    assert sorted(text for part in parts for text in part) == sorted(whole)
    digests = [[text.rpartition(" ")[2] for text in part] for part in parts]
    assert [d for part in digests for d in part] == sorted(
        d for p in digests for d in p
    )
    assert sum(len(set(part)) for part in digests) == 10
    manifest(*words)
    assert not list(out.glob("manifest.warcsum.*"))
