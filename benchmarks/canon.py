"""``canon``: microseconds per URL of the rule sets, and of the package surt.

``seen_heritrix_over_scrapy`` is what a fingerprint takes under Heritrix's rules,
in parts of what it takes under Scrapy's.

The URLs are made as those of a crawl are: mostly plain, one in ten with a session
id, one in twenty with escapes, upper case or a port.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import surt as pypi
from scrapy import Request
from scrapy.utils.request import RequestFingerprinter
from scrapy.utils.test import get_crawler

from benchmarks.harness import Figures, Report, alternate, environment
from frontier.urls.canon.rulesets import NAMED
from frontier.urls.fingerprint import Fingerprints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.harness import Options
    from benchmarks.server import Server

FULL, QUICK = 20_000, 3_000
ROUNDS = 5
SEEN = ("scrapy", "heritrix")
"""Sets of which the whole fingerprint is measured as well."""
WORDS = ("news", "article", "about", "2024", "image", "index.html", "p", "tag", "en")


def run(server: Server, options: Options) -> Report:
    """Measure every set by turns, in one thread."""
    urls = _urls(QUICK if options.quick else FULL)
    competitors: dict[str, Callable[[], Mapping[str, float]]] = {
        name: lambda apply=rules.apply: _pace(apply, urls)  # type: ignore[misc]
        for name, rules in NAMED.items()
    }
    # It asks the name server about hosts that are numbers; there are none here.
    competitors["surt_pypi"] = lambda: _pace(pypi.surt, urls)
    # By turns with the above, as a scheduler asks; see Scheduler.enqueue_request.
    asked = RequestFingerprinter(get_crawler())
    for name in SEEN:
        tests = Fingerprints(asked, name)
        competitors[f"seen_{name}"] = lambda tests=tests: _seen(tests, urls)  # type: ignore[misc]
    figures = Figures()
    for name, metrics in alternate(ROUNDS, competitors):
        figures.add(name, metrics)
    ratios = {
        f"us_{name.replace('-', '_')}": figures.value(name, "us_per_url")
        for name in NAMED
    }
    ratios["seen_heritrix_over_scrapy"] = round(
        figures.value("seen_heritrix", "us_per_url")
        / figures.value("seen_scrapy", "us_per_url"),
        3,
    )
    ratios["surt_pypi_us"] = figures.value("surt_pypi", "us_per_url")
    about = environment(server.info()) | {"urls": len(urls), "rounds": ROUNDS}
    return Report("canon", about, figures.results(), ratios)


def _urls(count: int) -> list[str]:
    dice = random.Random(7)
    return [_url(dice, number) for number in range(count)]


def _url(dice: random.Random, number: int) -> str:
    www = "www." if dice.random() < 0.5 else ""
    host = f"{www}host-{dice.randrange(500)}.example.{dice.choice(('com', 'org'))}"
    path = "/".join(dice.choices(WORDS, k=dice.randrange(1, 4)))
    query = []
    if dice.random() < 0.4:
        query = [f"{dice.choice('abcxyz')}={dice.randrange(1000)}" for _ in range(2)]
    if number % 10 == 0:
        query.append(f"PHPSESSID={dice.getrandbits(128):032x}")
    if number % 20 == 1:
        host, path = f"{host.upper()}:80", f"{path}/%7Ea/../b%20c"
    return f"https://{host}/{path}" + ("?" + "&".join(query) if query else "")


def _pace(apply: Callable[[str], object], urls: list[str]) -> dict[str, float]:
    begin = time.process_time()
    for url in urls:
        apply(url)
    return {"us_per_url": (time.process_time() - begin) / len(urls) * 1e6}


def _seen(tests: Fingerprints, urls: list[str]) -> dict[str, float]:
    """What it takes to tell the fingerprints of links, as of requests of a page."""
    requests = [Request(url) for url in urls]
    begin = time.process_time()
    for request in requests:
        if tests.of_get(request.url) is None:
            tests.of(request)
    return {"us_per_url": (time.process_time() - begin) / len(urls) * 1e6}
