"""What a node serves for Prometheus: its port, a reactor that is blocked, names."""

import asyncio
import contextlib
import http.client
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from frontier.errors import ConfigurationError
from frontier.metrics.exporter import MOST, PATIENCE, Exporter
from frontier.metrics.node import ABOUT, TOP_HOSTS, Reading
from frontier.settings.config import Config
from frontier.settings.values import ports, ports_of
from frontier.status.figures import ERROR_KINDS, Figures, figures_of
from frontier.status.validate import printable

DEADLINE = 120.0
READING = Reading(dict.fromkeys(ABOUT, "x"), Figures(pages=1), {}, {})


@pytest.fixture
def exporter():
    """Make exporters, which are closed at the end."""
    made = []

    def make(port="0", host="127.0.0.1"):
        made.append(Exporter(Config(metrics_port=port, metrics_host=host)))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def loop():
    """An event loop that runs in a thread, as a reactor does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def ask(exporter, path="/metrics", method="GET", **headers):
    asking = http.client.HTTPConnection("127.0.0.1", exporter.port, timeout=DEADLINE)
    with contextlib.closing(asking):
        asking.request(method, path, headers=headers)
        answer = asking.getresponse()
        return answer.status, answer.read().decode()


def samples(exporter):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(ask(exporter)[1])
        for sample in family.samples
    }


def test_nodes_of_one_machine_take_the_ports_of_a_range_in_turn(exporter):
    while True:
        first = exporter().port
        with contextlib.suppress(ConfigurationError):
            second = exporter(f"{first}-{first + 20}").port
            break

    assert first < second <= first + 20


def test_a_port_that_is_taken_is_named(exporter):
    taken = exporter().port

    with pytest.raises(ConfigurationError, match=f"'{taken}'.*127.0.0.1: Address alr"):
        exporter(str(taken))
    with pytest.raises(ConfigurationError, match="203.0.113.1"):
        exporter(host="203.0.113.1")


def test_metrics_port_is_a_port_a_range_or_empty():
    assert [ports(one) for one in (0, "9401", "9401-9420", "", None)] == [
        "0",
        "9401",
        "9401-9420",
        "",
        "",
    ]
    assert list(ports_of("9401-9403")) == [9401, 9402, 9403]
    for wrong in ("x", "9420-9401", "70000", "0-5", "-1", "1-2-3", 1.5, True):
        with pytest.raises(ValueError, match="must be a port"):
            ports(wrong)


def test_a_loop_that_is_blocked_has_its_last_figures_served_and_their_age(
    exporter, loop
):
    served, pages = exporter(), [1]
    about = dict.fromkeys(ABOUT, "x")
    served.serve(lambda: Reading(about, Figures(pages=pages[0]), {}, {}), loop)
    until = time.monotonic() + DEADLINE
    while samples(served).get(("frontier_pages_total",)) != 1:
        assert time.monotonic() < until
    free = threading.Event()
    loop.call_soon_threadsafe(free.wait)
    pages[0] = 2
    blocked = samples(served)
    free.set()
    while samples(served)[("frontier_pages_total",)] != 2:
        assert time.monotonic() < until

    assert blocked[("frontier_pages_total",)] == 1
    assert blocked[("frontier_figures_age_seconds",)] >= PATIENCE


def test_names_from_the_web_are_escaped_cut_and_few(exporter, loop):
    bad = 'x"} 1\nevil_total 7\n\\'
    hosts = {f"host-{number}": {"dns": number} for number in range(100)}
    hosts |= {
        bad: {"dns": 10_000, bad: 5},
        "l" * 9000: {"tls": 10_000},
        "\ud800": {"dns": 9_999},
    }
    report = {
        "host_errors": hosts,
        "host_seconds": {bad: [2, 900.0], **{f"h{n}": [1, n] for n in range(100)}},
        "statuses": {"200": 5, bad: 6, "987": 7},
        "error_kinds": {"dns": 3, bad: 9},
    }
    served = exporter()
    served.serve(lambda: replace(READING, figures=figures_of(report)), loop)
    found = samples(served)

    assert "evil_total" not in {name for name, *_ in found}
    errors = {key[1]: value for key, value in found.items() if "host_errors" in key[0]}
    assert len(errors) == TOP_HOSTS
    assert {printable(bad), "l" * 255, "\ufffd"} <= set(errors)
    assert found[("frontier_host_request_seconds_total", printable(bad))] == 900
    assert found[("frontier_responses_total", "other")] == 7
    kinds = {key[1] for key in found if key[0] == "frontier_errors_total"}
    assert kinds == set(ERROR_KINDS)


def test_only_metrics_are_served_and_only_to_names_of_this_machine(exporter, loop):
    served = exporter()
    served.serve(lambda: READING, loop)

    assert ask(served, "/")[0] == 404
    assert ask(served, "/metrics/..")[0] == 404
    assert ask(served, method="POST")[0] == 405
    assert ask(served, Host="evil.example")[0] == 421
    assert ask(served, Host=f"localhost:{served.port}")[0] == 200
    assert ask(served, Host="[::1]:1")[0] == 200


def test_connections_that_say_nothing_are_limited_in_number(exporter, loop):
    served = exporter()
    served.serve(lambda: READING, loop)
    at = ("127.0.0.1", served.port)
    with contextlib.ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(at, DEADLINE))
            for _ in range(MOST + 1)
        ]
        assert silent[-1].recv(1) == b""  # closed, and no thread waits for it
    until = time.monotonic() + DEADLINE
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ask(served)[0] == 200:
                break
        assert time.monotonic() < until


def test_a_reading_that_fails_is_logged_and_the_last_is_served(exporter, loop, caplog):
    served, works = exporter(), [True]

    def read():
        if not works[0]:
            raise ValueError("cannot count")
        return READING

    served.serve(read, loop)
    ask(served)
    works[0] = False
    assert "frontier_pages_total 1.0" in ask(served)[1]
    assert "the metrics of this node cannot be read" in caplog.text


def test_without_the_extra_there_is_one_line(monkeypatch):
    code = (
        "import sys; sys.modules['prometheus_client'] = None;"
        "import importlib.util as u; f = u.find_spec;"
        "u.find_spec = lambda n, *a: None if n == 'prometheus_client' else f(n, *a);"
        "from frontier.cli import main; sys.argv = ['frontier', 'crawl', 'run',"
        "'--seeds', 'http://127.0.0.1:1/', '-s', 'FRONTIER_METRICS_PORT=0']; main()"
    )
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True)

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("frontier: FRONTIER_METRICS_PORT needs prometheus_client: ")
    assert line.endswith("pip install 'frontier-crawl[metrics]'")
