"""Chains of requests with ``dont_filter``, whose nodes are killed: none forks."""

import contextlib
from collections import Counter

import pytest

from tests.harness.project import scrapy_project
from tests.rawsite import RawSite, answer, redirect

SPIDER = """
import asyncio
import os
import signal
from pathlib import Path

import scrapy

LENGTH = 24


class ChainSpider(scrapy.Spider):
    name = "chain"
    kinds = ("page", "poll", "form", "moved")

    def __init__(self, site="", kills="", notes="", only="", **kwargs):
        super().__init__(**kwargs)
        self.kinds = (only,) if only else self.kinds
        self.site, self.notes = site, Path(notes)
        self.kills = [int(number) for number in kills.split()]
        self.later = set()
        self.never = asyncio.Event()  # what nobody refers to is collected

    async def start(self):
        for kind in self.kinds:
            yield self.of(kind, 0)

    def of(self, kind, number):
        options = {"dont_filter": number > 0, "meta": {"kind": kind, "number": number}}
        if kind == "poll":
            return scrapy.Request(f"{self.site}/poll", **options)
        if kind == "form":
            form = {"at": str(number)}
            return scrapy.FormRequest(f"{self.site}/form", formdata=form, **options)
        return scrapy.Request(f"{self.site}/{kind}/{number}", **options)

    async def parse(self, response):
        kind, number = response.meta["kind"], response.meta["number"]
        yield {"kind": kind, "number": number}
        at = next((k for k in self.kills if not (self.notes / str(k)).exists()), -9)
        if number == at + 1:
            self.later.add(kind)
            if len(self.later) == len(self.kinds):
                (self.notes / str(at)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            await self.never.wait()
        if kind == "mixed":  # a leaf that cannot be stored
            meta = {"kind": "leaf", "number": 10**6, "local": lambda: None}
            url = f"{self.site}/leaf/{number}"
            yield scrapy.Request(url, dont_filter=True, meta=meta)
        if number < LENGTH:
            yield self.of(kind, number + 1)
        if number == at and kind == "mixed":
            await asyncio.sleep(1)
            (self.notes / str(at)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if number == at:  # what it has made is queued; it is not acked
            await self.never.wait()
"""


class ChainSite(RawSite):
    """Answers, and counts what it is asked; ``/moved/N`` leads to ``/there/N``."""

    def __init__(self):
        self.asked = Counter()
        super().__init__({"/robots.txt": answer(status="404 No")}, answer=self._say)

    def _say(self, path, received):
        _, _, body = received.decode().partition("\r\n\r\n")
        self.asked[f"{path} {body}".strip()] += 1
        is_moved = path.startswith("/moved/")
        to = path.replace("moved", "there")
        return redirect(to) if is_moved else answer("ok")


@pytest.fixture
def chain(tmp_path):
    return scrapy_project(tmp_path / "project", SPIDER)


def test_a_page_that_is_delivered_again_pushes_what_it_forces_once(
    cluster, chain, tmp_path
):
    kills = (5, 12)
    with contextlib.closing(ChainSite()) as site:
        args = [f"site={site.origin}", f"kills={' '.join(map(str, kills))}"]
        args += [f"notes={tmp_path}"]
        options = [word for arg in args for word in ("-a", arg)]
        codes = []
        for _ in range(len(kills) + 1):
            cluster.start(
                "node-1",
                *options,
                spider="chain",
                cwd=chain,
                FRONTIER_LEASE_TTL="3",
                FRONTIER_RUN_ID="1",
            )
            codes += cluster.wait("node-1")
    assert codes == [-9] * len(kills) + [0]
    asked = site.asked
    # What was in flight: two that wait, and what is before them and not acked yet.
    again = {number for kill in kills for number in range(kill - 3, kill + 2)}
    for kind in ("/page/{}", "/moved/{}", "/there/{}", "/form at={}"):
        counts = {number: asked[kind.format(number)] for number in range(25)}
        assert min(counts.values()) == 1, (kind, counts)
        assert {number for number, count in counts.items() if count > 1} <= again
    assert 25 <= asked["/poll"] <= 25 + len(again)
