"""A node that is killed before any of its calls loses nothing that it has acked."""

import os
import time

import pytest

from frontier.cdx.lines import parse
from frontier.collection.rounds import Collection
from frontier.dedupe.digest import digest_of
from frontier.dedupe.url_history import MatchedIndex
from frontier.model import Made
from frontier.store.client import BlockingStore
from frontier.warc.batch import ArchiveConfig
from frontier.warc.cdxj_sidecar import Listing
from frontier.warc.crawl_log import CrawlLog, repair_logs
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from frontier.warc.repair import repair
from frontier.warc.writer_thread import ArchiveThread
from tests.collection.conftest import make_index
from tests.kill_points import KILLS, check_kills
from tests.warc.judges import assert_sound, read_warcio
from tests.warc.samples import an_exchange, names

__all__ = ("make_index",)
pytestmark = pytest.mark.store
BODIES = [os.urandom(900) for _ in range(3)]
DOCUMENT = Made("browser.Handler", "http://example.com/2")
EXCHANGES = [
    an_exchange(0, BODIES[0]),
    an_exchange(1, BODIES[0]),
    an_exchange(2, BODIES[1], made=DOCUMENT),
    an_exchange(3, BODIES[2]),
    an_exchange(4, BODIES[0]),
]
ALL = {each.url: each.response_body for each in EXCHANGES}
SIZE = 2_500
"""Of a file: there are three, and the second begins with what no server sent."""


class Node:
    """Its directory, its index, and a file with what it has acked."""

    def __init__(self, place, index, *, metadata):
        place.mkdir()
        self.place, self.acks = place, place.with_name(f"{place.name}.acks")
        self.acks.touch()
        self.index, self.metadata = index, metadata

    def run(self):
        """Repair what is there, write what was not acked, and end the crawl."""
        store = BlockingStore.from_settings({"REDIS_URL": self.index.url})
        name, listing = self.index.name, Listing()
        collection = Collection(store, name, "crawl", revisits=True)
        collection.begin()
        index = MatchedIndex(store, name, "crawl", collection, (), lambda: "crawl")
        index.begin()
        config = WarcConfig(
            self.place,
            "crawl",
            "node",
            max_bytes=SIZE,
            metadata=self.metadata,
            listing=listing,
        )
        repair(self.place, listing.write)
        repair_logs(self.place)
        log = CrawlLog(config, time.time)
        writer = WarcWriter(config, time.time)
        archive = ArchiveThread(writer, index, ArchiveConfig(log=log))
        for each in EXCHANGES:
            if each.url not in self.acks.read_text().split():
                sequence, _ = archive.submit(each)
                archive.durable(sequence).result()
                with self.acks.open("a") as file:
                    file.write(f"{each.url}\n")
        archive.close()
        collection.commit()
        store.close()

    def after_kill(self):
        """Nothing is held of it."""

    def end(self):
        """Everybody finds every payload, and the index knows those it should."""
        found, payloads = {}, {}
        files = sorted(self.place.glob("*.warc.gz"))
        for path in files:
            assert_sound(path)
            lines = path.with_name(path.name.replace(".warc.gz", ".cdxj"))
            text = lines.read_bytes().splitlines()
            assert text == sorted(text)
            here = []
            for kind, headers, _, payload in read_warcio(path):
                url, date = headers.get("WARC-Target-URI"), headers.get("WARC-Date")
                if kind in {"response", "resource"}:
                    payloads[url, date] = payload
                elif kind == "revisit":
                    refers = "WARC-Refers-To-Target-URI", "WARC-Refers-To-Date"
                    payload = payloads[tuple(map(headers.get, refers))]
                else:
                    continue
                here.append(url)
                assert found.setdefault(url, payload) == payload
            assert sorted(parse(line).url for line in text) == sorted(here)
        assert not [name for name in names(self.place) if name.endswith(".open")]
        logged = b"".join(p.read_bytes() for p in self.place.glob("*.crawl.log"))
        assert all(f" {url} ".encode() in logged for url in ALL)
        assert found == ALL
        digests = set(self.index.everything()["alldupes"])
        assert digests == {digest_of(BODIES[0]), digest_of(BODIES[2])}


@KILLS
@pytest.mark.parametrize("metadata", [True, False])
def test_acked_captures_survive_a_kill_at_any_call(
    make_index, tmp_path, metadata, kills
):
    def node(name):
        return Node(tmp_path / name, make_index(name), metadata=metadata)

    check_kills(node, kills)
