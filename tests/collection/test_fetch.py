"""Sources at URLs."""

import hashlib
import json

import pytest

from tests.collection.samples import digest, line, make_manifest, make_wacz, resource
from tests.postcrawl.test_remote_files import Server


@pytest.fixture
def web(tmp_path):
    server = Server(tmp_path)
    yield server
    server.close()


def test_a_manifest_and_its_files_are_fetched(index, web, tmp_path):
    wacz = make_wacz(tmp_path / "a.wacz", [line(n) for n in range(50)])
    found = [resource(wacz, "a"), resource(wacz, "a", name="lie", size=5)]
    make_manifest(tmp_path / "m.json", found)

    done = index.put(web.url("m.json"))

    assert done.originals == 50
    assert "its manifest says 5" in done.broken[0]
    assert index.waczs("a")[0]["hash"] == hashlib.sha256(wacz.read_bytes()).hexdigest()


@pytest.mark.parametrize("path", ["gone.wacz", "gone.json", "away"])
def test_unreachable_source_url_is_reported(index, web, tmp_path, path):
    url = web.url(path)
    (tmp_path / "m.json").write_text(
        json.dumps({"resources": [{"path": web.url("away"), "name": "x.wacz"}]})
    )
    given = url if path != "away" else web.url("m.json")

    code, _, err = index.run("import", given)

    assert code == 6
    assert web.url("") in err
    assert index.hash(index.keys.alldupes) == {}


def test_a_manifest_from_the_network_leads_to_no_local_file(index, web, tmp_path):
    wacz = make_wacz(tmp_path / "a.wacz", [line(1)])
    found = [{"path": str(wacz), "name": "1.wacz"}, {"path": f"file://{wacz}"}]
    make_manifest(tmp_path / "m.json", found)

    done = index.put(web.url("m.json"))

    assert len(done.broken) == 2
    assert digest(1) not in index.hash(index.keys.alldupes)
