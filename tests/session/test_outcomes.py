import json
import random
from collections import Counter

import pytest
from scrapy.exceptions import IgnoreRequest
from twisted.internet import error as tx
from twisted.web._newclient import ResponseNeverReceived

from frontier.download.outcomes import (
    AddressRefused,
    Excluded,
    HostBackedOff,
    HostGivenUp,
    LeaseGone,
    OutOfScope,
    RobotsUnreachable,
    URLTooLong,
    kind_of_status,
    outcome_of,
)
from frontier.session.request_stats import MAX_NAMES, MOST, SHOWN, Outcomes
from frontier.status.figures import ERROR_KINDS


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (tx.DNSLookupError(), "dns"),
        (tx.ConnectionRefusedError(), "refused"),
        (tx.TCPTimedOutError(), "timeout"),
        (tx.TimeoutError(), "timeout"),
        (tx.SSLError(), "tls"),
        (tx.ConnectionLost(), "reset"),
        (ResponseNeverReceived([]), "reset"),
        (ValueError(), "other"),
        (IgnoreRequest("a middleware of the project"), "other"),
        (RobotsUnreachable("robots.txt did not come"), "other"),
        (IgnoreRequest("Forbidden by robots.txt"), None),
        (IgnoreRequest("Filtered offsite request"), None),
        (OutOfScope(), None),
        (Excluded(), None),
        (URLTooLong(), None),
        (AddressRefused("http://h/", "private"), None),
        (LeaseGone(), None),
        (HostBackedOff(), None),
        (HostGivenUp(), None),
    ],
)
def test_error_kinds_exclude_requests_that_were_refused(error, kind):
    assert outcome_of(error).kind == kind


def test_statuses_that_say_later_are_errors():
    kinds = {status: kind_of_status(status) for status in (200, 404, 429, 500, 599)}

    assert kinds == {
        200: None,
        404: None,
        429: "http_429",
        500: "http_5xx",
        599: "http_5xx",
    }


def test_the_host_with_most_errors_is_found_among_very_many():
    dice, made, truth = random.Random(7), Outcomes(), Counter()
    for number in range(8_000):
        host = (
            f"h{number}.example" if dice.random() < 0.8 else f"bad{dice.randrange(9)}"
        )
        truth[host] += 1
        made.failed("timeout", host)

    told = made.report()["host_errors"]

    assert len(made._hosts) == MOST
    assert {f"bad{n}" for n in range(9)} <= set(list(told)[:9])
    assert all(0 < told[host]["timeout"] <= truth[host] for host in told)
    assert made.errors == 8_000


def test_the_slowest_hosts_are_named_first_and_memory_is_bounded():
    made = Outcomes()
    for number in range(3 * MOST):
        made.took(f"h{number}", number / 1000)
    made.took("slow", 100.0)
    made.took("slow", 300.0)
    made.took("clock", -5.0)

    told = made.report()["host_seconds"]

    assert len(made._hosts) == MOST
    assert len(told) == SHOWN
    first, second, *_ = told.items()
    assert first == ("slow", [2, 400.0])
    assert second == ("h5999", [1, 5.999])


def test_outcomes_report_has_a_bounded_size():
    made = Outcomes()
    for number in range(100):
        host = f"{number:03}" + "x" * 300
        for kind in ERROR_KINDS:
            made.failed(kind, host)
        made.took(host, 12345.678)

    told = made.report()

    assert all(len(host) == 255 for host in told["host_errors"])
    assert sum(map(len, told["host_errors"])) <= MAX_NAMES
    assert 0 < len(told["host_seconds"]) <= MAX_NAMES // 255
    assert len(json.dumps(told)) < 20_000
