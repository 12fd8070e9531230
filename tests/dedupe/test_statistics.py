from dataclasses import replace

from frontier.dedupe import revisit_policy
from frontier.dedupe.revisit_policy import Statistics
from tests.warc.samples import an_exchange


def test_payloads_and_bytes_are_counted_by_host_and_media_type(monkeypatch):
    monkeypatch.setattr(revisit_policy, "MOST_COUNTED", 2)
    made = Statistics()
    for number in range(4):
        exchange = an_exchange(number, body=b"x" * (10 + number))
        url = f"http://user@{number % 3}.example/"
        made.note(replace(exchange, url=url), None)

    assert made.kinds["handled"] == made.kinds["new"] == [4, 46]
    assert made.kinds["exact_url"] == [0, 0]
    assert made.report() == {
        "hosts": {
            "0.example": [2, 23, 0, 0],
            "(others)": [1, 12, 0, 0],
            "1.example": [1, 11, 0, 0],
        },
        "mimes": {"text/html": [4, 46, 0, 0]},
    }
