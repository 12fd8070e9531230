"""Sources at URLs."""

import hashlib
import http.server
import json
import re
import threading

import pytest

from tests.collection.samples import digest, line, make_manifest, make_wacz, resource


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "file:///etc/hostname")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        file = self.server.home / self.path.lstrip("/")
        if not file.is_file():
            self.send_error(404)
            return
        data = file.read_bytes()
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if wanted:
            first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            data = data[first : last + 1]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def web(tmp_path):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.home = tmp_path
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_manifest_and_its_files_are_fetched(index, web, tmp_path):
    wacz = make_wacz(tmp_path / "a.wacz", [line(n) for n in range(50)])
    found = [resource(wacz, "a"), resource(wacz, "a", name="lie", size=5)]
    make_manifest(tmp_path / "m.json", found)

    done = index.put(f"{web.url}/m.json")

    assert done.originals == 50
    assert "its manifest says 5" in done.broken[0]
    assert index.waczs("a")[0]["hash"] == hashlib.sha256(wacz.read_bytes()).hexdigest()


@pytest.mark.parametrize("path", ["gone.wacz", "gone.json", "away"])
def test_unreachable_source_url_is_reported(index, web, tmp_path, path):
    url = f"{web.url}/{path}"
    (tmp_path / "m.json").write_text(
        json.dumps({"resources": [{"path": f"{web.url}/away", "name": "x.wacz"}]})
    )
    given = url if path != "away" else f"{web.url}/m.json"

    code, _, err = index.run("import", given)

    assert code == 6
    assert f"{web.url}/" in err
    assert index.hash(index.keys.alldupes) == {}


def test_a_manifest_from_the_network_leads_to_no_local_file(index, web, tmp_path):
    wacz = make_wacz(tmp_path / "a.wacz", [line(1)])
    found = [{"path": str(wacz), "name": "1.wacz"}, {"path": f"file://{wacz}"}]
    make_manifest(tmp_path / "m.json", found)

    done = index.put(f"{web.url}/m.json")

    assert len(done.broken) == 2
    assert digest(1) not in index.hash(index.keys.alldupes)
