"""Every revisit leads to stored bytes, whoever was killed."""

import pytest

from frontier.dedupe.digest import digest_of
from frontier.model import Original
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.chaos.resolve import resolve, run
from tests.warc.samples import NOON, an_exchange


@pytest.mark.chaos
def test_every_revisit_of_a_crawl_with_two_kills_leads_to_its_bytes(tmp_path):
    outcome = run(tmp_path, urls=300, nodes=3, kills=2)

    assert outcome["dangling"] == outcome["wrong"] == []
    assert outcome["missing_urls"] == 0
    assert outcome["exit_codes"] == {"0": 3}
    assert outcome["revisits"] > 30
    assert outcome["repaired"] + outcome["responses"] > 100


def test_the_judge_sees_a_revisit_that_leads_nowhere_and_a_wrong_digest(tmp_path):
    writer = WarcWriter(WarcConfig(tmp_path, "c", "n"), lambda: NOON)
    digest = digest_of(an_exchange().response_body)
    stored = writer.append(an_exchange(0), digest)
    here = Original("http://example.com/0", stored.date, "c", 1)
    writer.append(an_exchange(1), digest, here)
    away = Original("http://example.com/9", stored.date, "c", 1)
    writer.append(an_exchange(2), digest, away)
    writer.append(an_exchange(3, b"other"), digest)
    writer.close()

    found = resolve(tmp_path)
    assert (found.responses, found.revisits) == (2, 2)
    assert ["/2 " in each for each in found.dangling] == [True]
    assert ["/3 " in each for each in found.wrong] == [True]
