import hashlib
import itertools

import pytest

from frontier.model import Original
from frontier.warc.file_rotation import WarcConfig, WarcWriter
from tests.warc.samples import an_exchange


@pytest.fixture
def write_warc(tmp_path):
    """Write the bodies as captures of a crawl; a known digest becomes a revisit."""
    known = {}
    moments = itertools.count(1_780_000_000)

    def write(crawl_id, bodies, node="node-1"):
        directory = tmp_path / "warcs"
        directory.mkdir(exist_ok=True)
        writer = WarcWriter(
            WarcConfig(directory, crawl_id, node), lambda: float(next(moments))
        )
        for number, body in enumerate(bodies):
            digest = hashlib.sha256(body).hexdigest()
            exchange = an_exchange(number, body, started=float(next(moments)))
            stored = writer.append(exchange, digest, known.get(digest))
            known.setdefault(
                digest, Original(exchange.url, stored.date, crawl_id, stored.length)
            )
        writer.close()
        return directory

    return write
