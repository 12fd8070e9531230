"""``frontier dashboard`` where there is nothing yet."""

import http.client
import re
import signal
import subprocess
import sys

import warm

from frontier.store.embedded import EmbeddedStore

HELD = 60


def answer(port):
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=HELD)
    try:
        asking.request("GET", "/")
        found = asking.getresponse()
        return found.status, found.read().decode()
    finally:
        asking.close()


def test_without_a_store_it_says_so_and_waits_for_the_first_crawl(tmp_path):
    where = tmp_path / "state"
    words = ["dashboard", "--port", "0", "--store-dir", str(where)]
    with warm.Popen(
        [sys.executable, "-m", "frontier", *words],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert f"the first crawl makes it in {where}" in process.stderr.readline()
        port = int(re.search(r":(\d+)/", process.stderr.readline())[1])
        code, text = answer(port)
        assert code == 503
        assert f"there is no store in {where}" in text
        assert not where.exists()  # it only looks
        store = EmbeddedStore.join(where)
        try:
            while answer(port)[0] == 503:
                pass
            assert "There is no crawl yet" in answer(port)[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(HELD)
            store.leave()
    assert process.returncode == 0
