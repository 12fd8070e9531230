"""A plan as WARCsum writes it, byte for byte."""

import hashlib

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


def test_a_plan_is_as_warcsum_writes_it(before, tmp_path):
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

    run("plan", out)  # another plan: the text would be of the old one
    assert not (out / "plan.warcsum").exists()
