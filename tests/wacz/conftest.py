import itertools

import pytest

from frontier.warc.file_rotation import WarcConfig
from tests.warc.samples import an_exchange, written


@pytest.fixture
def write_warc(tmp_path):
    """Write the bodies as captures of a crawl; a known digest becomes a revisit."""
    known = {}
    moments = itertools.count(1_780_000_000)

    def write(crawl_id, bodies, node="node-1"):
        directory = tmp_path / "warcs"
        directory.mkdir(exist_ok=True)
        began = float(next(moments))
        exchanges = [
            an_exchange(number, body, started=float(next(moments)))
            for number, body in enumerate(bodies)
        ]
        config = WarcConfig(directory, crawl_id, node)
        written(config, exchanges, known, lambda: began)
        return directory

    return write
